// The page about a run: marks, figures, rounds.

import { median } from './figures.mjs'

/** Copies that the publisher may send, whatever the crowd. */
export const COPIES_MAX = 2

export function marksOf(rounds) {
  return [
    { mark: 'copies that the publisher sent, median', value: median(rounds.map(({ copies }) => copies)), atMost: COPIES_MAX, show: (value) => value.toFixed(2) },
    {
      mark: 'content relayed between two who had a direct way, all rounds',
      value: rounds.reduce((sum, each) => sum + each.relayedContentBytesWhileDirect, 0), atMost: 0, show: (value) => `${value} B`,
    },
  ]
}

export function pageOf({ options, machine, bound, pair, rounds, command, seconds, date }) {
  const of = (figure) => rounds.map((round) => round[figure])
  const mid = (figure) => median(of(figure))
  const range = (figure, show) => `${show(Math.min(...of(figure)))} to ${show(Math.max(...of(figure)))}`
  const s = (value) => `${value.toFixed(1)} s`
  const mb = (value) => `${(value / 1e6).toFixed(1)} MB`
  const percent = (value) => `${(value * 100).toFixed(1)} %`
  const copies = (value) => value.toFixed(2)
  const row = (name, figure, show) => `| ${name} | ${show(mid(figure))} | ${range(figure, show)} |`
  const { viewers, bytes, uplink } = options
  const byWhat = uplink === null ? 'directly where they can' : `by relay alone, ${mb(uplink)}/s of each`
  const lines = [
    `# One page, ${viewers} viewers`,
    '',
    `Written by \`${command}\` on ${date}; it took ${seconds.toFixed(0)} s. How it measures is told in \`bench/README.md\`.`,
    '',
    `Machine: ${machine.cores} cores (${machine.model}), ${(machine.memoryBytes / 2 ** 30).toFixed(1)} GiB of memory, Linux ${machine.kernel}, load ${machine.load.toFixed(1)} before the run. ${viewers + 1} Chromium processes, each one person, and one server, all on this machine; a file of ${mb(bytes)}, ${byWhat}; ${rounds.length} ${rounds.length === 1 ? 'round' : 'rounds'}, the picture of the middle one.`,
    '',
    '![The page at each viewer, and what its publisher sent, second by second](crowd.svg)',
    '',
    '| mark | measured | at most | |',
    '|---|---:|---:|---|',
    ...marksOf(rounds).map(({ mark, value, atMost, show }) => `| ${mark} | ${show(value)} | ${show(atMost)} | ${value <= atMost ? 'met' : 'MISSED'} |`),
    '',
    '| figure | median | rounds |',
    '|---|---:|---:|',
    row('copies of the file that the publisher sent', 'copies', copies),
    row('share of the content that went directly', 'directShare', percent),
    row('content that went by relay', 'relayedContentBytes', mb),
    row('of it between two who had a direct way', 'relayedContentBytesWhileDirect', mb),
    row('all that the server relayed, by its own count', 'relayedBytes', mb),
    row('direct ways that were made', 'lines', (value) => value.toFixed(0)),
    row('content that moved, for each byte that a viewer needed', 'movedPerNeeded', copies),
    row('the first viewer has the last byte', 'firstDone', s),
    row('half of them have it', 'medianDone', s),
    row('the last one has it', 'lastDone', s),
    `| the bound (${bound.kind}) | ${s(bound.seconds)} | |`,
    `| the last one, against the bound | ${(mid('lastDone') / bound.seconds).toFixed(2)} x | |`,
    row('CPU-seconds, all programs', 'cpuSeconds', s),
    row('of them the publisher', 'cpuPublisher', s),
    row('of them the server', 'cpuServer', s),
    row('CPU-seconds of other programs meanwhile', 'cpuOthers', s),
    '',
    uplink === null
      ? `The bound is that of the processors: one viewer alone takes ${s(pair.cpuSeconds)} of CPU for all of it, both ends and the server together (${s(pair.lastDone)} on the clock), so ${viewers} take no less than ${viewers} x ${pair.cpuSeconds.toFixed(1)} / ${machine.cores} cores. Nobody's uplink is a limit on one machine; with real ones, what the publisher sends is what counts.`
      : `The bound is that of the uplinks: no sooner than all of them together carry ${viewers} copies, nor than one copy leaves the publisher.`,
    '',
    'Two hundred simulated peers that come, leave, return and are cut off are in [churn.md](churn.md).',
    '',
    '## Each viewer',
    '',
    'Seconds from opening the link to the last byte, the soonest first.',
    '',
    `| round | ${Array.from({ length: viewers }, (_, i) => i + 1).join(' | ')} |`,
    `|---|${'---:|'.repeat(viewers)}`,
    ...rounds.map(({ times }, i) => `| ${i + 1} | ${times.map((time) => time.toFixed(1)).join(' | ')} |`),
    '',
  ]
  return lines.join('\n')
}
