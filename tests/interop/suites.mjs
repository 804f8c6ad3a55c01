// Runs suites of tests with outside software, or a slice of each: enough to notice that the suite no longer works.
//
//   node suites.mjs NAME...            whole suites
//   node suites.mjs --slice NAME...    slices; without names, of all suites that have one
//   node suites.mjs --missing          prints which suites need programs that are not installed
//
// A suite that runs alone prints as it goes. Several run two at a time, and a table shows the seconds of each: most of
// them wait longer than they compute. `make slice-NAME` and `make test-NAME` also build and install what they need.

import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

process.chdir(path.dirname(fileURLToPath(import.meta.url)))

const AT_A_TIME = 2
/** A test of a slice that takes longer fails. Alone on two processors, a whole slice takes less than a minute. */
const SLICED_TEST_MS = 4 * 60_000
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'
const FIREFOX = process.env.FIREFOX ?? '/usr/bin/firefox-esr'
const PROXIES = ['nginx', 'caddy', 'haproxy', CHROMIUM]

const testsIn = (folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.test.mjs'))
    .map((name) => `${folder}/${name}`)

/**
 * The files of each suite, its environment, and how many of its files run at a time. A slice has names of tests, and may have
 * fewer files; the tools that are installed fastest stand for the others. A suite without the programs that it `needs` does not
 * run, and is counted; in CI it fails. Tests that need Go skip themselves.
 */
const SUITES = {
  channels: { files: testsIn('channels'), atATime: 2 },
  'channels-3': { files: testsIn('channels'), atATime: 2, env: { INTEROP_PROCESSES: '3', INTEROP_CLIENTS: '1.8.16,1.3.4' } },
  client: { files: testsIn('client'), needs: [CHROMIUM] },
  'command-line': { files: ['gateway/command-line.test.mjs', ...testsIn('peers'), ...testsIn('processes')], needs: [CHROMIUM] },
  browser: { command: ['browser/run.mjs'], needs: [CHROMIUM, 'tsung'] },
  'browser-whole': { command: ['browser/run.mjs'], env: { BROWSER_WHOLE: '1' }, needs: [CHROMIUM, 'tsung'] },
  kubo: { files: [...testsIn('kubo'), 'gateway/kubo.test.mjs'], needs: [CHROMIUM] },
  gateway: { files: testsIn('gateway'), needs: [CHROMIUM] },
  tls: { files: testsIn('tls') },
  // Texts, pictures, folders and PDFs in the browser while a holder sends only some of their blocks.
  early: {
    files: testsIn('browser/early'),
    needs: [CHROMIUM],
    slice: {
      names: ['a text is shown from its first block', '10,000 files open', 'a PDF shows its first page'],
    },
  },
  // A first visit with a screen reader, a keyboard, zoom and reduced motion, as docs/browser/walks.md records it; a notification.
  walks: { files: testsIn('browser/walks'), needs: [CHROMIUM, 'dbus-daemon'] },
  // `watchfire sprites` on two X servers.
  desktop: { files: testsIn('desktop'), needs: [CHROMIUM, 'Xvfb', 'xdotool', 'xev', 'xwininfo'], slice: { names: ['without a display'] } },
  // Live pages between tabs and terminals, and a stolen key.
  live: { files: testsIn('browser/live'), needs: [CHROMIUM], slice: { names: ['shows the live page of a terminal'] } },
  // Pages and folders that are too much for one tab: 4 GiB with a small disk, more files than a page or a drop may have.
  tab: { files: testsIn('tab'), needs: [CHROMIUM] },
  // A channel server from the packages that crates.io would get. It compiles, so it begins first.
  package: { files: testsIn('package'), slice: {} },
  proxies: {
    files: testsIn('proxies'),
    needs: PROXIES,
    slice: { names: ['npm phoenix over', 'plain HTTP is redirected', 'names each client, before TLS'] },
  },
  // Polls of two minutes, 1,000 reconnects and 300 MB through each proxy.
  'proxies-long': { files: ['proxies/proxies.test.mjs'], env: { PROXIES_LONG: '1' }, needs: PROXIES },
  processes: {
    files: [
      ...['availability', 'availability-times', 'holders', 'holders-times', 'sprites'].map((name) => `browser/${name}.test.mjs`),
      'gateway/kubo.test.mjs',
    ],
    env: { INTEROP_PROCESSES: '3' },
    needs: [CHROMIUM],
    slice: {
      names: [
        'a page with a picture passes',
        'a sprite thrown over the right edge',
        'kubo fetches by its CID a page that only a tab holds',
      ],
    },
  },
  mirror: {
    files: testsIn('mirror'),
    needs: ['docker-registry', 'skopeo', 'buildah', 'podman', 'containerd', 'runc'],
    slice: {
      needs: ['docker-registry', 'skopeo'],
      files: ['mirror/clients.test.mjs', 'mirror/faults.test.mjs', 'mirror/fleet.test.mjs'],
      env: { MIRROR_CLIENTS: 'skopeo' },
      names: ['skopeo', 'is asked for the rest of a blob', 'keeps no blob that does not have its digest', 'fetches a blob once whose size'],
    },
  },
  cluster: {
    files: testsIn('cluster'),
    needs: ['haproxy', CHROMIUM],
    slice: {
      needs: [],
      files: ['cluster/cluster.test.mjs', 'cluster/security.test.mjs'],
      names: ['delivers messages and presence between machines', 'removes the clients of a machine that is killed', 'TLS and a password'],
    },
  },
  // FAULT_SEEDS (8) plans. The slice: one machine whose worker is killed, another one stopped, and which is upgraded; and three machines with a NATS server each.
  faults: { files: testsIn('faults'), slice: { env: { FAULT_SLICE: '1', FAULT_SEED: '23582', FAULT_SEEDS: '2' } } },
  // The operator's page, `watchfire top` in tmux, a fault of each kind that the page must name, and a real Prometheus.
  observe: {
    files: testsIn('observe'),
    needs: ['prometheus', 'promtool', 'tmux', 'docker-registry', CHROMIUM],
    slice: {
      files: ['top', 'page', 'view', 'prometheus-files'].map((name) => `observe/${name}.test.mjs`),
      names: [
        'shows the figures of the server',
        'restores the shell when it quits',
        'the charts show clients',
        'sees the clients of all',
        'are valid',
        'have alerts that fire when they must',
        'test each alert',
      ],
    },
  },
  // Two browsers on each pair of eight kinds of networks, and uplinks that change; as root, takes half an hour.
  networks: { files: testsIn('networks'), needs: [CHROMIUM], slice: { names: ['two homes connect directly'] } },
  // Pages over several servers: two gateways, a partition, an upgrade, 600 clients, and every packet of a browser that hides its address.
  neighbours: {
    files: testsIn('neighbours'),
    needs: [CHROMIUM, 'python3'],
    slice: { names: ['a page stays open while a server'] },
  },
  profiles: {
    files: ['observe/profiles.test.mjs'],
    env: { PROFILES: '1' },
    needs: ['go', 'python3'],
    slice: { names: ['of a server under load are read', 'flame graphs'] },
  },
  traces: {
    files: testsIn('traces'),
    needs: ['docker-registry', CHROMIUM],
    slice: {
      names: ['of get and share are one tree', 'of joins and connects begin in the client', 'begin in the server when they are sampled'],
    },
  },
  engines: {
    command: ['engines/run.mjs'],
    needs: [CHROMIUM, FIREFOX, 'WebKitWebDriver', 'Xvfb'],
    slice: {
      needs: [CHROMIUM, FIREFOX],
      command: undefined,
      files: ['engines/pairs.test.mjs'],
      names: ['Chromium and Firefox pass pages'],
    },
  },
  embed: {
    files: testsIn('embed'),
    needs: [CHROMIUM],
    slice: {
      files: ['embed/embed.test.mjs'],
      names: ['npm installs the packages', 'each example of the READMEs', 'HTML is shown', 'an invalid CID'],
    },
  },
  tutorials: {
    files: testsIn('tutorials'),
    needs: ['docker-registry', 'uvicorn', 'go', 'php', 'ruby', CHROMIUM],
    slice: {
      needs: ['docker-registry', 'uvicorn', 'go', CHROMIUM],
      names: [
        ...['shows the pointer of one visitor', 'node signs', 'go signs'],
        // Without the load of half a minute and the experiment.
        ...['Watchfire', 'Install', 'Share a page', 'Channels in your app', 'Fetch with kubo'].map((heading) => `README works: ${heading}`),
        ...['a project that is written from a clone', 'each command that is not run'],
        ...['tutorial of kubo', 'tutorial of images', 'tutorial of a shared page', 'tutorial of channels'],
      ],
    },
  },
}

if (process.argv.includes('--missing')) {
  printMissing()
  process.exit()
}
const isSlice = process.argv.includes('--slice')
const known = Object.keys(SUITES).filter((name) => !isSlice || SUITES[name].slice)
const named = process.argv.slice(2).filter((argument) => argument !== '--slice')
const unknown = named.find((name) => !known.includes(name))
if (unknown || (!isSlice && named.length === 0)) throw new Error(`cannot run the suite ${unknown ?? ''}: name some of ${known.join(', ')}`)

const waiting = named.length > 0 ? named : known
const isAlone = waiting.length === 1
const rows = []
await Promise.all(Array.from({ length: AT_A_TIME }, work))
for (const { name, ms, result } of isAlone && !isSlice ? rows.filter(({ ms }) => ms === 0) : rows)
  console.log(`${(ms / 1000).toFixed(1).padStart(6)} s  ${name}: ${result}`)
const failed = rows.filter(({ isGood }) => !isGood).map(({ name }) => name)
if (failed.length > 0) console.error(`failed: ${failed.join(', ')}`)
process.exitCode = failed.length > 0 ? 1 : 0

/** Runs one suite after another, until none waits. */
async function work() {
  for (let name = waiting.shift(); name; name = waiting.shift()) {
    const started = performance.now()
    const suite = isSlice ? { ...SUITES[name], atATime: 1, ...SUITES[name].slice } : SUITES[name]
    const missing = missingOf(suite.needs)
    if (missing.length > 0) {
      rows.push({ name, ms: 0, isGood: !process.env.CI, result: `NOT TESTED: ${missing.join(', ')} not installed` })
      continue
    }
    const { code, output } = await run(suite)
    const passed = Number(/^# pass (\d+)$/m.exec(output)?.[1])
    // Skipped by the test itself, with a reason, and not because its name is not in the slice.
    const skipped = output.match(/# SKIP (?!test name)\S.*$/gm) ?? []
    // A renamed test must not leave a slice empty.
    const isMissing = isSlice && passed + skipped.length < (suite.names?.length ?? 1)
    const isGood = code === 0 && !isMissing
    if (!isGood) process.stdout.write(output)
    const result = isMissing
      ? `${passed || 0} tests passed, and the slice has ${suite.names?.length ?? 'at least one'}`
      : [Number.isNaN(passed) ? '' : `${passed} passed`, ...skipped.slice(0, 1), isGood ? '' : 'FAILED'].filter(Boolean).join(', ')
    rows.push({ name, ms: performance.now() - started, isGood, result })
  }
}

/** The programs of a suite that are not installed. Debian's users do not have the folder of some in their path. */
function missingOf(needs = []) {
  const folders = [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/sbin']
  return needs.filter((program) => !folders.some((folder) => existsSync(path.resolve(folder, program))))
}

function printMissing() {
  const missing = Object.keys(SUITES).flatMap((name) => {
    const programs = missingOf(SUITES[name].needs)
    return programs.length > 0 ? [`  ${name}: ${programs.join(', ')}`] : []
  })
  if (missing.length > 0) console.log(`${missing.length} suites need programs that are not installed:\n${missing.join('\n')}`)
}

/** Runs the tests of a suite or a slice. */
function run({ files, names = [], env = {}, atATime = 1, command }) {
  const isQuiet = !isAlone || isSlice
  const reporter = isQuiet ? ['--test-reporter=tap'] : []
  const limit = isSlice ? [`--test-timeout=${SLICED_TEST_MS}`] : []
  const patterns = names.map((name) => `--test-name-pattern=${name}`)
  const args = command ?? ['--test', ...reporter, ...limit, `--test-concurrency=${atATime}`, ...patterns, ...files]
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, {
      env: { ...process.env, ...env },
      stdio: isQuiet ? ['ignore', 'pipe', 'pipe'] : 'inherit',
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', (text) => (output += text))
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, output }))
  })
}
