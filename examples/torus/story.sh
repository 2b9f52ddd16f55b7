#!/usr/bin/env bash
# A torus of 4, 8 or 16 hosts on this machine, each in a network namespace, and what becomes of it when cables and a host
# die. All is gone when it ends, however it ends. See README.md.
set -euo pipefail

readonly SHAPE=${1:-2x2}
readonly PAUSE=${PAUSE:-3} WATCHDOG=${WATCHDOG:-500 ms} PATIENCE=${PATIENCE:-60}
readonly PREFIX=gannet-story-$$
readonly PANEL=$PREFIX-panel

fail() {
    echo "story.sh: $1" >&2
    exit "$2"
}

case $SHAPE in
    2x2) SIZES=(2 2 1) ;;
    2x2x2) SIZES=(2 2 2) ;;
    4x4) SIZES=(4 4 1) ;;
    *) fail "there is no story of '$SHAPE': choose 2x2, 2x2x2 or 4x4" 2 ;;
esac
[[ $EUID -eq 0 ]] || fail "namespaces and cables take root: run it by sudo, or see 'gannet torus demo', which takes no rights" 5
command -v ip >/dev/null || fail "there is no program 'ip': install iproute2" 5
GANNET=${GANNET:-$(command -v gannet || true)}
readonly GANNET=${GANNET:-$(dirname "$0")/../../target/release/gannet}
[[ -x $GANNET ]] || fail "there is no gannet: build it by 'cargo build --release', or set GANNET to where it is" 5

readonly HOSTS=$((SIZES[0] * SIZES[1] * SIZES[2]))
DIRECTORY=$(mktemp -d)
readonly DIRECTORY
declare -A PROCESS=()

take_down() {
    trap '' INT TERM HUP
    ((${#PROCESS[@]} == 0)) || kill "${PROCESS[@]}" 2>/dev/null || true
    wait || true
    for ((host = 0; host < HOSTS; host++)); do
        ip netns delete "$PREFIX-n$host" 2>/dev/null || true
    done
    ip netns delete "$PANEL" 2>/dev/null || true
    rm -rf "$DIRECTORY"
}
trap take_down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

tell() {
    printf '\n== %s\n\n' "$*"
}

# Each port of a host is wired to a panel, where a cable is a bridge of two ports: so a cable can be pulled without its
# ports going away.
plug() { # CABLE PORT PORT
    ip -n "$PANEL" link add "$1" type bridge mcast_snooping 0
    ip -n "$PANEL" link set "$1" up
    ip -n "$PANEL" link set "$2" master "$1"
    ip -n "$PANEL" link set "$3" master "$1"
}

pull() { # CABLE
    ip -n "$PANEL" link delete "$1"
}

# The host at X Y Z, each counted round its ring.
host_at() {
    local x=$(($1 % SIZES[0])) y=$(($2 % SIZES[1])) z=$(($3 % SIZES[2]))
    echo $((x + SIZES[0] * (y + SIZES[1] * z)))
}

lay_cables() {
    local -a used=()
    local x y z dimension cable=0 ports=0
    for size in "${SIZES[@]}"; do ((size == 1)) || ports=$((ports + 2)); done
    PORTS=$(seq -s, -f 'eth%g' 0 $((ports - 1)))
    ip netns add "$PANEL"
    for ((host = 0; host < HOSTS; host++)); do
        used[host]=0
        ip netns add "$PREFIX-n$host"
        for ((port = 0; port < ports; port++)); do
            ip link add "eth$port" netns "$PREFIX-n$host" type veth peer name "n${host}e$port" netns "$PANEL"
            ip -n "$PREFIX-n$host" link set "eth$port" up
            ip -n "$PANEL" link set "n${host}e$port" up
        done
    done
    for ((z = 0; z < SIZES[2]; z++)); do
        for ((y = 0; y < SIZES[1]; y++)); do
            for ((x = 0; x < SIZES[0]; x++)); do
                for dimension in 0 1 2; do
                    ((SIZES[dimension] > 1)) || continue
                    local -a next=("$x" "$y" "$z")
                    next[dimension]=$((next[dimension] + 1))
                    local from to
                    from=$(host_at "$x" "$y" "$z")
                    to=$(host_at "${next[@]}")
                    END_A[cable]=n${from}e${used[from]}
                    used[from]=$((used[from] + 1))
                    END_B[cable]=n${to}e${used[to]}
                    used[to]=$((used[to] + 1))
                    plug "cable$cable" "${END_A[cable]}" "${END_B[cable]}"
                    # The cable beside the first one.
                    ((dimension > 0 || x + z > 0 || y != 1)) || BESIDE=$cable
                    cable=$((cable + 1))
                done
            done
        done
    done
}

start() { # HOST
    ip netns exec "$PREFIX-n$1" "$GANNET" torus node --key "$DIRECTORY/key" --name "n$1" --port "$PORTS" \
        --lattice "$SHAPE" --watchdog "$WATCHDOG" --status "$DIRECTORY/n$1.sock" 2>>"$DIRECTORY/n$1.log" &
    PROCESS[$1]=$!
}

status() { # HOST
    "$GANNET" torus status "$DIRECTORY/n$1.sock" || true
}

# Waits until host 0 says that all is well, or a sentence with these words in it, and tells how long that took.
wait_for() {
    local said code begin=${EPOCHREALTIME/[.,]/} end=$((SECONDS + PATIENCE))
    while ((SECONDS < end)); do
        code=0
        said=$("$GANNET" torus status "$DIRECTORY/n0.sock" 2>&1) || code=$?
        if (($# == 0 && code == 0)) || [[ -n ${1-} && $said == *"$1"* ]]; then
            echo "after $(((${EPOCHREALTIME/[.,]/} - begin) / 1000)) ms:"
            return 0
        fi
        sleep 0.02
    done
    echo "$said"
    tail -n 5 "$DIRECTORY"/n*.log
    fail "the machine is not as it should be after $PATIENCE s" 1
}

declare -a END_A=() END_B=()
(umask 077 && head -c 32 /dev/urandom | base64 >"$DIRECTORY/key")

tell "$HOSTS hosts, cabled as $SHAPE; none knows its place, or where a cable leads"
lay_cables
for ((host = 0; host < HOSTS; host++)); do start "$host"; done
wait_for
status 0
sleep "$PAUSE"

tell "the cable of ${END_A[0]/e/ port eth} is pulled"
pull cable0
wait_for "carries nothing"
status 0
sleep "$PAUSE"

readonly A=${END_A[0]} B=${END_B[0]} C=${END_A[BESIDE]} D=${END_B[BESIDE]}
tell "it is plugged in again, crosswise with the cable beside it: to ${D/e/ port eth}, and that of ${C/e/ port eth} to ${B/e/ port eth}"
pull "cable$BESIDE"
plug cable0 "$A" "$D"
plug "cable$BESIDE" "$C" "$B"
# As soon as one of the two is heard, it alone seems to be wrong.
wait_for "swap it with"
status 0
sleep "$PAUSE"

tell "they are put right"
pull cable0
pull "cable$BESIDE"
plug cable0 "$A" "$B"
plug "cable$BESIDE" "$C" "$D"
wait_for
status 0
sleep "$PAUSE"

readonly VICTIM=$((HOSTS - 1))
tell "n$VICTIM is killed"
kill -KILL "${PROCESS[$VICTIM]}"
wait "${PROCESS[$VICTIM]}" 2>/dev/null || true
wait_for "n$VICTIM at "
status 0
sleep "$PAUSE"

tell "and started again"
start "$VICTIM"
wait_for
status 0
tell "the machine was whole at the end; all is taken down"
