// Computes the figures of a run from the peers' reports.

import { sum } from '../browser/figures.mjs'

export function figuresOf({
  hash,
  hashes,
  began,
  endedAt,
  here,
  past,
  returned,
  bytes,
  samples,
  serverResidentMax,
  peersResidentMax,
  relayedByServer,
  cpuPeers,
  cpuServer,
}) {
  const all = [...here, ...past]
  const total = (figure) => sum(all.map((each) => each[figure]))
  const visits = all.filter(({ id }) => id !== 'publisher')
  const times = visits
    .filter(({ completedAt }) => completedAt !== null)
    .map(({ joinedAt, completedAt }) => (completedAt - joinedAt) / 1000)
    .sort((a, b) => a - b)
  const at = (share) => times[Math.min(times.length - 1, Math.floor(share * times.length))]
  const [directBytes, relayedBytes] = [total('receivedBytes'), total('relayedBytes')]
  return {
    visits: visits.length,
    stayed: here.length - 1,
    gone: past.length,
    returned,
    wrong: [...hashes.values()].filter((each) => each !== hash).length,
    dropped: total('peersDropped'),
    seconds: (endedAt - began) / 1000,
    copies: samples.at(-1).copies,
    directShare: directBytes / (directBytes + relayedBytes),
    directBytes,
    relayedBytes,
    relayedWhileDirect: total('relayedWhileDirect'),
    relayedByServer,
    directConnections: total('directConnectionsMade') / 2,
    connectionsMax: Math.max(...all.map(({ connectionsMax }) => connectionsMax)),
    directConnectionsMax: Math.max(...samples.map(({ directConnections }) => directConnections)),
    movedPerNeeded: (directBytes + relayedBytes) / (bytes * sum(visits.map(({ share }) => share))),
    firstDone: at(0),
    medianDone: at(0.5),
    mostDone: at(0.95),
    lastDone: times.at(-1),
    serverResidentMax,
    peerResidentMax: Math.max(...peersResidentMax),
    cpuPeers,
    cpuServer,
  }
}
