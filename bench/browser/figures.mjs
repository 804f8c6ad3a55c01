// Computes the figures of a round from the reports of the tabs, the server and the kernel.

/** The figures of one round. */
export function figuresOf(round, fileBytes) {
  const { publisher, visitors, cpu } = round
  const direct =
    (side) =>
    ({ connections }) =>
      connections.reduce((sum, each) => sum + each[side], 0)
  const tabs = [publisher, ...visitors]
  const directBytes = sum(tabs.map(direct('received')))
  const relayed = (figure) => sum(tabs.map((tab) => tab.relayed[figure]))
  const contentRelayed = relayed('contentBytes')
  const times = visitors.map(({ doneAt, openedAt }) => (doneAt - openedAt) / 1000).sort((a, b) => a - b)
  const publisherBytes = direct('sent')(publisher) + publisher.relayed.contentBytes
  return {
    copies: publisherBytes / fileBytes,
    directShare: directBytes / Math.max(1, directBytes + contentRelayed),
    directBytes,
    relayedBytes: round.relayedBytes,
    relayedContentBytes: contentRelayed,
    relayedContentBytesWhileDirect: relayed('contentBytesWhileDirect'),
    times,
    firstDone: times[0],
    medianDone: median(times),
    lastDone: times.at(-1),
    cpuSeconds: cpu.server + cpu.publisher + sum(cpu.viewers),
    cpuServer: cpu.server,
    cpuPublisher: cpu.publisher,
    cpuOthers: cpu.others,
    /** Bytes of content that moved, for each that a viewer needed; 1 means no duplicates. */
    movedPerNeeded: (directBytes + contentRelayed) / (visitors.length * fileBytes),
    connections: sum(tabs.map(({ connections }) => connections.filter(({ openedAt }) => openedAt !== null).length)) / 2,
  }
}

/**
 * The least possible time to the last byte. With uplinks, the bound is their sum, or one copy over the publisher's uplink.
 * Without, it is the CPU time of one transfer between two browsers, for each viewer, divided by the cores.
 */
export function boundOf({ viewers, fileBytes, uplink, cores, pairCpuSeconds }) {
  if (uplink !== null) {
    const seconds = Math.max(fileBytes / uplink, (viewers * fileBytes) / ((viewers + 1) * uplink))
    return { kind: 'uplinks', seconds }
  }
  return { kind: 'processors', seconds: (viewers * pairCpuSeconds) / cores }
}

export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b)
  const middle = sorted.length / 2
  return sorted.length % 2 === 1 ? sorted[Math.floor(middle)] : (sorted[middle - 1] + sorted[middle]) / 2
}

export function sum(numbers) {
  return numbers.reduce((total, each) => total + each, 0)
}
