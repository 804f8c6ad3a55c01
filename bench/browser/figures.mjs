// From what the tabs, the server and the kernel told of a round to its figures.

/** The figures of one round. */
export function figuresOf(round, fileBytes) {
  const { publisher, visitors, cpu } = round
  const direct = (side) => ({ lines }) => lines.reduce((sum, line) => sum + line[side], 0)
  const everybody = [publisher, ...visitors]
  const directBytes = sum(everybody.map(direct('received')))
  const relayed = (what) => sum(everybody.map((tab) => tab.relayed[what]))
  const contentRelayed = relayed('contentBytes')
  const times = visitors.map(({ doneAt, cameAt }) => (doneAt - cameAt) / 1000).sort((a, b) => a - b)
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
    /** Bytes of content that moved, for each that a viewer needed: 1 is none in vain. */
    movedPerNeeded: (directBytes + contentRelayed) / (visitors.length * fileBytes),
    lines: sum(everybody.map(({ lines }) => lines.filter(({ upAt }) => upAt !== null).length)) / 2,
  }
}

/**
 * When the last byte could be there at the earliest. With uplinks: by their sum, or by how fast one copy leaves who
 * publishes. Without: by the processors, if all of them did nothing but what one transfer between two browsers costs.
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
