"""An MCP server in a few lines of plain Python, which can misbehave in the ways servers do.

``python plain_server.py [BEHAVIOUR] [PIDFILE]`` speaks the initialize handshake over standard
input and output and has the tools ``echo`` and ``act``. A behaviour changes what ``act`` or the
server as a whole does. With a PIDFILE the server writes its own id there, and a child's below it.
"""

import json
import os
import signal
import subprocess
import sys
import time

BEHAVIOUR = sys.argv[1] if len(sys.argv) > 1 else "good"
TOOLS = [
    {"name": "echo", "description": "Echo.", "inputSchema": {"type": "object"}},
    {"name": "act", "description": "Act.", "inputSchema": {"type": "object"}},
]


def say(request_id, result=None, error=None):
    answer = {"jsonrpc": "2.0", "id": request_id}
    answer |= {"result": result} if error is None else {"error": error}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def text(words, is_error=False):
    return {"content": [{"type": "text", "text": words}], "isError": is_error}


def act(request_id):
    if BEHAVIOUR == "hang":
        time.sleep(600)
    if BEHAVIOUR == "crash":
        print("the disk is on fire, token", os.environ.get("SECRET_TOKEN"), file=sys.stderr)
        sys.stderr.flush()
        os._exit(3)
    if BEHAVIOUR == "big":
        # 50 MB on one line.
        return say(request_id, text("x" * 50_000_000))
    if BEHAVIOUR == "flood":
        for _ in range(2_000):
            sys.stderr.write("e" * 1_000 + "\n")  # 2 MB, far beyond a pipe's buffer
        sys.stderr.flush()
    if BEHAVIOUR == "error":
        return say(request_id, error={"code": -32000, "message": "out of paper"})
    if BEHAVIOUR == "noise":
        print("this line is no message")
        sys.stdout.flush()
    if BEHAVIOUR == "env":
        return say(request_id, text("|".join(sorted(os.environ))))
    if BEHAVIOUR == "where":
        return say(request_id, text(os.getcwd()))
    if BEHAVIOUR == "picture":
        picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        return say(request_id, {"content": [picture, {"type": "text", "text": "a dot"}]})
    return say(request_id, text("acted"))


def main():
    if BEHAVIOUR == "mute":
        time.sleep(600)
    if BEHAVIOUR == "refuse":
        print("refused: no licence", file=sys.stderr)
        sys.exit(1)
    if BEHAVIOUR in ("stubborn", "children"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pids = [os.getpid()]
    if BEHAVIOUR == "children":
        nap = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        pids.append(subprocess.Popen([sys.executable, "-c", nap]).pid)
        # This one leaves the process group.
        pids.append(subprocess.Popen([sys.executable, "-c", nap], start_new_session=True).pid)
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w") as file:
            file.write("\n".join(map(str, pids)))
    for line in sys.stdin:
        message = json.loads(line)
        request_id, method = message.get("id"), message["method"]
        if request_id is None:
            continue
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "plain-server", "version": "0.1"}
            say(
                request_id,
                {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
            )
        elif method == "tools/list":
            say(request_id, {"tools": TOOLS})
        elif method == "tools/call" and message["params"]["name"] == "act":
            act(request_id)
        elif method == "tools/call":
            say(request_id, text(json.dumps(message["params"].get("arguments"))))
        else:
            say(request_id, error={"code": -32601, "message": "no such method"})
    while BEHAVIOUR in ("stubborn", "children"):
        time.sleep(60)


main()
