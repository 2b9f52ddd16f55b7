// Commands to the server: each with a key of its own, so that it is done once however often it is sent.

/** A key that no other command has. */
function key() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Sends a command, and gives why it was refused; nothing if it was carried out.
 * @param {string} path
 * @param {object} body
 */
export async function command(path, body) {
  try {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": key() },
      body: JSON.stringify(body),
    });
    return answer.ok ? "" : ((await answer.json()).detail ?? "It is refused.");
  } catch {
    return "Nobody answers.";
  }
}
