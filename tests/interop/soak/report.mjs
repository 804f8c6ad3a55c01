// The figures of a soak, and its page: docs/seeds/soak.md when it ran whole, otherwise target/soak/soak.md.

import { execFileSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { cpus, release, totalmem } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { slope } from './memory.mjs'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
const WHOLE = { minutes: 120, tabs: 30 }
/** From opening the link to the last byte, upgrades included. */
export const VISITOR_SECONDS_MAX = 15
/** MiB in an hour. */
const SERVER_GROWTH_MAX = 4
const TAB_GROWTH_MAX = 2
/** The part of the run after an upgrade, in which tabs connect again or are reloaded, and memory moves for that reason. */
const SETTLING = 1 / 20

export function figuresOf({ samples, visits, upgrades, reloads, pageErrors, tabs, minutes }) {
  const seconds = minutes * 60
  const isSettled = ({ at }) => upgrades.every((upgrade) => at < upgrade.at || at > upgrade.at + upgrade.seconds + seconds * SETTLING)
  const settled = samples.filter((sample) => sample.at >= seconds / 2 && isSettled(sample))
  const between = [0, ...upgrades.map(({ at }) => at)].map((at, n) =>
    settled.filter((sample) => sample.at >= at && sample.at < (upgrades[n]?.at ?? Infinity)),
  )
  const growth = (of) => (slope(between.map((group) => group.map((sample) => [sample.at, of(sample)]))) * 3600) / 2 ** 20
  const times = visits.map((visit) => visit.seconds).sort((a, b) => a - b)
  const least = Math.min(...samples.filter(({ at }) => at >= 0).map(({ whole }) => whole))
  return {
    visits: visits.length,
    failedVisits: visits.filter(({ problem }) => problem !== null).length,
    visitMedianSeconds: times[Math.floor(times.length / 2)],
    visitMaxSeconds: times.at(-1),
    serverGrowth: growth(({ serverBytes }) => serverBytes),
    tabGrowth: growth(({ tabBytes }) => tabBytes),
    serverPeakMebibytes: Math.max(...samples.map(({ serverBytes }) => serverBytes)) / 2 ** 20,
    tabPeakMebibytes: Math.max(...samples.map(({ tabBytes }) => tabBytes)) / 2 ** 20,
    leastWholeTabs: least,
    tabsThatLostThePage: tabs - samples.at(-1).whole,
    reloads: reloads.length,
    reloadMaxSeconds: Math.max(...reloads),
    upgradeMaxSeconds: Math.max(...upgrades.map((upgrade) => upgrade.seconds)),
    consoleErrors: pageErrors.size,
  }
}

/** Writes the page, the picture and the JSON; resolves with the path of the page. */
export async function writePage(run, figures) {
  const isWhole = run.minutes >= WHOLE.minutes && run.tabs >= WHOLE.tabs
  const folder = path.join(REPOSITORY, isWhole ? 'docs/seeds' : 'target/soak')
  await mkdir(folder, { recursive: true })
  const { tabs, minutes, samples, visits, upgrades, reloads } = run
  const stored = { tabs, minutes, figures, samples, visits, upgrades, reloads, consoleErrors: [...run.pageErrors], chart: chartOf(run) }
  const json = path.join(folder, 'soak.json')
  await writeFile(json, `${JSON.stringify(stored)}\n`)
  const draw = ['run', '--quiet', '--package', 'watchfire-report', '--example', 'draw', '--', json, path.join(folder, 'soak.svg')]
  execFileSync(process.env.CARGO ?? 'cargo', draw, { cwd: REPOSITORY, stdio: 'inherit' })
  const page = path.join(folder, 'soak.md')
  await writeFile(page, pageOf(run, figures))
  return path.relative(REPOSITORY, page)
}

function pageOf({ tabs, minutes, pageBytes, pageErrors }, figures) {
  const machine = `${cpus().length} cores (${cpus()[0]?.model.trim()}), ${(totalmem() / 2 ** 30).toFixed(1)} GiB of memory, Linux ${release().split('-')[0]}`
  const number = (value, decimals) => value.toFixed(decimals)
  const target = (what, value, most, unit, decimals) =>
    `| ${what} | ${number(value, decimals)} ${unit} | at most ${most} ${unit} | ${value <= most ? 'met' : 'MISSED'} |`.replaceAll(
      '  |',
      ' |',
    )
  return `# ${tabs} tabs hold a page for ${minutes} minutes

Written by \`make soak\` on ${new Date().toISOString().slice(0, 10)} at commit ${commit()}.

Machine: ${machine}.

![Tabs that hold the page, memory, and the time of each visitor](soak.svg)

| target | measured | wanted | |
|---|---:|---:|---|
${[
  target('visitors that did not get the page whole within the bound', figures.failedVisits, 0, '', 0),
  target('slowest visitor, from the link to the last byte', figures.visitMaxSeconds, VISITOR_SECONDS_MAX, 's', 1),
  target('tabs that did not hold the page at the end', figures.tabsThatLostThePage, 0, '', 0),
  target('growth of the server in the second half, MiB an hour', figures.serverGrowth, SERVER_GROWTH_MAX, '', 2),
  target('growth of a tab in the second half, MiB an hour', figures.tabGrowth, TAB_GROWTH_MAX, '', 2),
].join('\n')}

| figure | |
|---|---:|
| visitors, each with an empty profile | ${figures.visits} |
| time of a visitor, median | ${number(figures.visitMedianSeconds, 1)} s |
| most memory of the server, during upgrades of both programs | ${number(figures.serverPeakMebibytes, 1)} MiB |
| most memory of a tab, with its share of the browser | ${number(figures.tabPeakMebibytes, 1)} MiB |
| tabs that were reloaded after the upgrade of the client; the slowest held the page again after | ${figures.reloads}; ${number(figures.reloadMaxSeconds, 1)} s |
| longest upgrade, until the old program had ended | ${number(figures.upgradeMaxSeconds, 1)} s |
| different errors on the consoles of the tabs | ${figures.consoleErrors} |

## How it is measured

- One tab publishes a file of ${pageBytes / 1e6} MB, and the others open its link: Chromium processes with ten tabs each, and a profile for each tab. Direct connections are allowed. The server has its default settings.
- After one third and two thirds of the time the program of the server is replaced on disk, and SIGUSR2 starts it, as in [Upgrade](../how-to/upgrade.md). At half of the time the new program has another build of the web client, in which every script has another name. Then every second tab is reloaded, one after another; the others go on with the old client until the end.
- Each minute, and so at each upgrade, a visitor with an empty profile opens the link, saves the file, and its SHA-256 is compared.
- Memory of the server is the resident memory of all its processes. Memory of a tab is that of all browser processes divided by the tabs; memory that processes share is counted once.
- The growth is the slope of lines through the samples of the second half, by least squares: one line before the last upgrade and a parallel one after it, because the two programs differ in size. The time in which tabs connect again or are reloaded is left out (a twentieth of the run after each upgrade).
${pageErrors.size === 0 ? '' : `- Errors on consoles: ${[...pageErrors].slice(0, 5).join('; ')}.\n`}`
}

function chartOf({ samples, visits, upgrades, tabs, minutes }) {
  const time = () => ({ label: 'minutes', max: minutes, step: null, is_log: false, format: 'Number' })
  const axis = (label, max = null) => ({ label, max, step: null, is_log: false, format: 'Number' })
  const line = (name, colour, points) => ({ name, colour, side: 'Left', opacity: 1, points })
  const points = (of) => samples.map((sample) => [sample.at / 60, of(sample)])
  const markers = upgrades.map(({ at, what }) => ({ name: `upgrade: ${what}`, colour: 'Grey', is_on_x: true, at: at / 60 }))
  const panel = (title, left, lines, marks = markers.map((marker) => ({ ...marker, name: '' }))) => ({
    Lines: { title, x: time(), left, right: null, lines, markers: marks },
  })
  const mebibytes = (of) => points((sample) => of(sample) / 2 ** 20)
  return {
    label: `${tabs} tabs hold a page: tabs, memory, and the time of each visitor`,
    panels: [
      panel(
        'Tabs that have the whole page',
        axis('tabs'),
        [
          line(
            'by the count that a tab shows, visitors included',
            'Blue',
            points(({ holders }) => holders),
          ),
          line(
            'show the whole page',
            'Green',
            points(({ whole }) => whole),
          ),
        ],
        markers,
      ),
      panel('Memory of the server', axis('MiB'), [
        line(
          '',
          'Orange',
          mebibytes(({ serverBytes }) => serverBytes),
        ),
      ]),
      panel('Memory of a tab', axis('MiB'), [
        line(
          '',
          'Purple',
          mebibytes(({ tabBytes }) => tabBytes),
        ),
      ]),
      panel('Time until a visitor has the whole page', axis('seconds'), [
        line(
          '',
          'Blue',
          visits.map((visit) => [visit.at / 60, visit.seconds]),
        ),
      ]),
    ],
    notes: [`${cpus().length} cores, Linux ${release().split('-')[0]}. Grey lines: upgrades.`],
  }
}

/** The commit that is measured, and whether files differ from it. */
function commit() {
  const git = (...args) => execFileSync('git', args, { cwd: REPOSITORY, encoding: 'utf8' }).trim()
  const changes = git('status', '--porcelain', '--untracked-files=no')
  return `${git('rev-parse', '--short=8', 'HEAD')}${changes === '' ? '' : ' with local changes'}`
}
