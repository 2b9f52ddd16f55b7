// Elements, made and changed. Text is set as text: nothing that comes from a wire or a file is ever markup.

/**
 * An element with these classes, this text, and these children.
 * @param {string} tag
 * @param {string} [classes]
 * @param {string | (Node | null)[]} [content]
 */
export function make(tag, classes = "", content = []) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  if (typeof content === "string") element.textContent = content;
  else element.append(...content.filter((child) => child !== null));
  return element;
}

/**
 * Sets the text of an element, if it is another one.
 * @param {Element} element
 * @param {string} text
 */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * A text for people, in which what stands between backticks is code.
 * @param {string} text
 */
export function prose(text) {
  return text.split(/`([^`]+)`/).map((part, at) => (at % 2 === 1 ? make("code", "", part) : document.createTextNode(part)));
}

/**
 * Sets the text of an element as `prose`, if it is another one.
 * @param {Element} element
 * @param {string} text
 */
export function explain(element, text) {
  if (element.textContent !== text.replaceAll(/`([^`]+)`/g, "$1")) element.replaceChildren(...prose(text));
}

/** A table whose rows are kept from one picture to the next. */
export class Table {
  /**
   * @param {string} caption
   * @param {{title: string, numeric?: boolean, long?: boolean}[]} columns those with long texts break their lines
   * @param {boolean} [folds] whether each row becomes a list of its cells where there is no place for all side by side
   */
  constructor(caption, columns, folds = false) {
    this.titles = columns.map(({ title }) => title);
    this.kinds = columns.map(({ numeric, long }) => [numeric ? "number" : "", long ? "long" : ""].filter((it) => it !== "").join(" "));
    this.body = document.createElement("tbody");
    const titles = columns.map(({ title, numeric }) => {
      const cell = make("th", numeric ? "number" : "", title);
      cell.setAttribute("scope", "col");
      return cell;
    });
    const table = make("table", folds ? "folds" : "", [
      make("caption", "", caption),
      make("thead", "", [make("tr", "", titles)]),
      this.body,
    ]);
    this.element = make("div", "scroll", [table]);
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "region");
    this.element.setAttribute("aria-label", caption);
  }

  /** @param {number} column */
  cell(column) {
    const cell = make("td", this.kinds[column]);
    cell.setAttribute("data-title", this.titles[column]);
    return cell;
  }

  /**
   * Shows these rows; a cell with a mark stands out, one with an address leads there.
   * @param {(string | {text: string, mark?: string, href?: string})[][]} rows
   */
  show(rows) {
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((cells, at) => {
      const row = this.body.rows[at] ?? this.body.insertRow();
      cells.forEach((cell, column) => {
        /** @type {Element} */
        const place =
          row.cells[column] ?? row.appendChild(this.cell(column));
        const { text, mark, href } = typeof cell === "string" ? { text: cell } : cell;
        if (href === undefined) {
          say(place, text);
        } else {
          const link = place.querySelector("a") ?? place.appendChild(make("a"));
          if (link.getAttribute("href") !== href) link.setAttribute("href", href);
          say(link, text);
        }
        place.classList.toggle("loss", mark === "loss");
        place.classList.toggle("attention", mark === "attention");
      });
    });
  }
}
