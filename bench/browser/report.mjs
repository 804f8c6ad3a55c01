// The report of a run: targets, figures, tables and the chart. `watchfire-bench draw` writes its page.

import { axis, line, marker, panel } from './chart.mjs'
import { median } from './figures.mjs'

/** Copies that the publisher may send, however many viewers there are. */
const COPIES_MAX = 2

export function targetsOf(rounds) {
  const relayedWhileDirect = rounds.reduce((sum, each) => sum + each.relayedContentBytesWhileDirect, 0)
  return [
    {
      what: 'copies that the publisher sent, median',
      value: median(rounds.map(({ copies }) => copies)),
      bound: COPIES_MAX,
      unit: '',
      decimals: 2,
      is_least: false,
    },
    {
      what: 'content relayed between peers with an open direct connection, all rounds',
      value: relayedWhileDirect,
      bound: 0,
      unit: 'B',
      decimals: 0,
      is_least: false,
    },
  ]
}

export function reportOf({ options, machine, commit, bound, pair, rounds, round, command, seconds, date, isWhole }) {
  const of = (figure) => rounds.map((each) => each[figure])
  const range = (figure, show) => `${show(Math.min(...of(figure)))} to ${show(Math.max(...of(figure)))}`
  const s = (value) => `${value.toFixed(1)} s`
  const mb = (value) => `${(value / 1e6).toFixed(1)} MB`
  const percent = (value) => `${(value * 100).toFixed(1)} %`
  const copies = (value) => value.toFixed(2)
  const row = (name, figure, show) => [name, show(median(of(figure))), range(figure, show)]
  const { viewers, bytes, uplink } = options
  const transport = uplink === null ? 'over direct connections where they can be made' : `by relay only, ${mb(uplink)}/s for each`
  return {
    benchmark: 'crowd',
    page: 'README',
    title: `One page, ${viewers} viewers`,
    is_whole: isWhole,
    date,
    commit,
    machine: `${machineSentence(machine)}. ${viewers + 1} Chromium processes, each one user, and one server, all on this machine; a file of ${mb(bytes)}, ${transport}; ${rounds.length} ${rounds.length === 1 ? 'round' : 'rounds'}, the picture shows the one in the middle`,
    command,
    seconds: Math.round(seconds),
    method: [
      '`bench/README.md` describes each figure.',
      uplink === null
        ? `The bound is set by the processors: one viewer alone needs ${s(pair.cpuSeconds)} of CPU for the whole page, both ends and the server together (${s(pair.lastDone)} on the clock). So ${viewers} viewers need at least ${viewers} x ${pair.cpuSeconds.toFixed(1)} / ${machine.cores} cores. No uplink is a limit on one machine. With real uplinks, what the publisher sends is what counts.`
        : `The bound is set by the uplinks: all of them together carry ${viewers} copies no sooner, and one copy leaves the publisher no sooner.`,
      '[churn.md](churn.md) is about two hundred simulated peers that join, leave, return and lose their connection.',
    ],
    targets: targetsOf(rounds),
    figures: [],
    tables: [
      {
        title: 'Figures',
        heads: ['figure', 'median', 'rounds'],
        rows: [
          row('copies of the file that the publisher sent', 'copies', copies),
          row('share of the content over direct connections', 'directShare', percent),
          row('content by relay', 'relayedContentBytes', mb),
          row('of that, between peers with an open direct connection', 'relayedContentBytesWhileDirect', mb),
          row('all bytes that the server relayed, by its own count', 'relayedBytes', mb),
          row('direct connections', 'connections', (value) => value.toFixed(0)),
          row('content that moved, for each byte that a viewer needed', 'movedPerNeeded', copies),
          row('the first viewer has the whole page', 'firstDone', s),
          row('half of the viewers have it', 'medianDone', s),
          row('the last viewer has it', 'lastDone', s),
          [`the bound (${bound.kind})`, s(bound.seconds), ''],
          ['the last viewer, compared with the bound', `${(median(of('lastDone')) / bound.seconds).toFixed(2)} x`, ''],
          row('CPU-seconds of all programs', 'cpuSeconds', s),
          row('of that, the publisher', 'cpuPublisher', s),
          row('of that, the server', 'cpuServer', s),
          row('CPU-seconds of other programs meanwhile', 'cpuOthers', s),
        ],
      },
      {
        title: 'Seconds from opening the link to the last byte, each viewer',
        heads: ['round', 'load before', ...Array.from({ length: viewers }, (_, i) => String(i + 1))],
        rows: rounds.map(({ times, loadBefore }, i) => [
          String(i + 1),
          (loadBefore ?? 0).toFixed(1),
          ...times.map((time) => time.toFixed(1)),
        ]),
      },
    ],
    chart: chartOf({ round, bound, fileBytes: bytes, machine, viewers }),
  }
}

export function machineSentence({ cores, model, memoryBytes, kernel, load }) {
  return `${cores} cores (${model}), ${(memoryBytes / 2 ** 30).toFixed(1)} GiB of memory, Linux ${kernel}, load ${load.toFixed(1)} before the run`
}

/** Progress of each viewer, and copies that the publisher sends meanwhile. */
function chartOf({ round, bound, fileBytes, machine, viewers }) {
  const since = (at) => Math.max(0, (at - round.began) / 1000)
  const seconds = Math.max(bound.seconds, ...round.visitors.map(({ doneAt }) => since(doneAt))) * 1.04
  const shares = round.visitors.map(({ samples, doneAt, openedAt }) => {
    const until = samples.filter(({ at }) => at >= openedAt && at < doneAt).map(({ at, share }) => [since(at), share])
    return line('', 'Blue', [[since(openedAt), 0], ...until, [since(doneAt), 1]], 0.65)
  })
  const sent = round.publisher.samples
    .filter(({ at }) => at >= round.began)
    .map((sample) => [since(sample.at), (sample.sent + sample.relayed) / fileBytes])
  const time = () => axis('seconds since they opened the link', { max: seconds })
  return {
    label: `How a page reaches ${viewers} viewers, and how many copies its publisher sends`,
    panels: [
      panel(
        `Share of the page that each of ${viewers} viewers has`,
        time(),
        axis('share', { max: 1, step: 0.25, format: 'Percent' }),
        shares,
        [marker(`the bound: ${bound.seconds.toFixed(1)} s`, 'Green', bound.seconds, true)],
      ),
      panel(
        'Copies that the publisher has sent',
        time(),
        axis('copies'),
        [line('', 'Orange', sent)],
        [marker(`at most ${COPIES_MAX}`, 'Grey', COPIES_MAX, false)],
      ),
    ],
    notes: [
      `${viewers} viewers of ${fileBytes / 1e6} MB; ${machine.cores} cores, Linux ${machine.kernel}; the bound is set by the ${bound.kind}.`,
    ],
  }
}
