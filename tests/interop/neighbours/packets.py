"""Prints each new destination of the packets that leave through an interface, as JSON, and at its end the number of packets."""

import json
import signal
import socket
import struct
import sys

raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
raw.bind((sys.argv[1], 0))
packets, seen = 0, set()


def end(*_):
    print(json.dumps({"packets": packets}), flush=True)
    sys.exit()


signal.signal(signal.SIGTERM, end)
print(json.dumps({"ready": True}), flush=True)
while True:
    frame, (_, _, kind, _, _) = raw.recvfrom(65536)
    if kind != socket.PACKET_OUTGOING:
        continue
    packets += 1
    (ether,) = struct.unpack("!H", frame[12:14])
    flow = hex(ether)
    if ether == 0x0806:
        flow = "arp"
    elif ether == 0x0800:
        head = 14 + (frame[14] & 15) * 4
        to = socket.inet_ntoa(frame[30:34])
        protocol = {6: "tcp", 17: "udp"}.get(frame[23], str(frame[23]))
        port = struct.unpack("!H", frame[head + 2 : head + 4])[0] if protocol in ("tcp", "udp") else 0
        flow = f"{protocol} {to}:{port}"
    if flow not in seen:
        seen.add(flow)
        print(json.dumps({"to": flow}), flush=True)
