// Tests the crates, documents, client and web modules that differ from main, committed or not, and the crates that depend on those.
// A change of documents only checks the documents: nothing is compiled.
//
//   node tests/changed.mjs           runs the tests, and names the suites with outside software that the change touches
//   node tests/changed.mjs FILE...   prints only what it would run if these files differed

import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const CARGO = process.env.CARGO || 'cargo'
process.chdir(fileURLToPath(new URL('..', import.meta.url)))

/** The make targets that try a crate with outside software. */
const SUITES = {
  api: ['test-channels', 'test-client', 'test-tutorials', 'test-traces'],
  auth: ['test-channels', 'test-client'],
  bitswap: ['test-browser', 'test-kubo', 'test-command-line'],
  certificates: ['test-tls'],
  channels: ['test-channels', 'test-client'],
  cli: ['test-command-line', 'test-desktop', 'test-tls'],
  cluster: ['test-channels-3', 'test-processes', 'test-cluster', 'test-faults', 'test-observe'],
  content: ['test-browser', 'test-kubo', 'test-command-line'],
  fleet: ['test-mirror'],
  hooks: ['test-channels'],
  https: ['test-tls'],
  hub: ['test-channels', 'test-channels-3', 'test-cluster', 'test-faults'],
  lab: ['test-browser', 'test-networks', 'test-traces', 'test-tutorials'],
  load: ['test-browser'],
  metrics: ['test-observe'],
  mirror: ['test-mirror'],
  operator: ['test-observe', 'test-profiles'],
  p2p: ['test-kubo', 'test-command-line', 'test-mirror'],
  'page-client': ['test-browser', 'test-command-line', 'test-live'],
  pages: ['test-browser', 'test-kubo', 'test-neighbours', 'test-processes', 'test-proxies'],
  server: ['test-channels', 'test-client', 'test-browser', 'test-tls', 'test-proxies', 'test-observe', 'test-tutorials'],
  settings: ['test-command-line'],
  sim: ['gate'],
  sockets: ['test-channels', 'test-tls', 'test-proxies'],
  store: ['test-command-line', 'test-kubo', 'test-mirror'],
  traces: ['test-traces'],
  tracker: ['test-browser', 'test-processes'],
  wire: ['test-networks'],
}

/** The make targets that try the web client. */
const WEB_SUITES = ['test-browser', 'test-early', 'test-walks', 'test-live', 'test-tab', 'test-embed']

/** The make target of a folder of tests/interop; the others have a target of their own name. */
const SUITE_OF_FOLDER = {
  'browser/early': 'test-early',
  'browser/walks': 'test-walks',
  'browser/live': 'test-live',
  gateway: 'test-kubo',
  peers: 'test-command-line',
  processes: 'test-command-line',
  tsung: 'test-browser',
  pebble: 'test-tls',
  package: 'test-package',
  soak: 'soak',
  nats: 'test-cluster',
  otelcol: 'test-traces',
}

const asked = process.argv.slice(2)
const base = asked.length > 0 ? 'main' : git('merge-base', 'HEAD', isKnown('origin/main') ? 'origin/main' : 'main').trim()
const changed =
  asked.length > 0 ? asked : [...lines(git('diff', '--name-only', base)), ...lines(git('ls-files', '--others', '--exclude-standard'))]
const workspace = readWorkspace()
const isDocument = (file) => file.endsWith('.md')
const tests = changed.every(isDocument) ? (changed.length > 0 ? [make('docs-links')] : []) : testsOf(changed)
for (const command of tests) {
  console.log(`${command.in ? `(in ${command.in}) ` : ''}${command.run.join(' ')}`)
  if (asked.length > 0) continue
  const { status } = spawnSync(command.run[0], command.run.slice(1), { stdio: 'inherit', cwd: command.in })
  if (status !== 0) process.exit(status ?? 1)
}
const suites = [...(changed.length > 0 && changed.every(isDocument) ? ['rust-test'] : []), ...suitesOf(changed)]
if (suites.length > 0) console.log(`also affected, and not run: make ${suites.join(' ')}`)

/** The commands that test these files. */
function testsOf(files) {
  const commands = [make('web'), make('format')]
  const workspaceArgs = (process.env.WORKSPACE || '--workspace').split(' ').filter(Boolean)
  const crates = [...new Set([...withDependents(files.flatMap(cratesWithSource)), ...files.flatMap(cratesWithTestsOf)])].sort()
  const isOfAll = files.some((file) => file === 'Cargo.lock' || file === 'Cargo.toml')
  if (isOfAll || crates.length > 0) {
    commands.push({ run: [CARGO, 'clippy', ...workspaceArgs, '--all-targets', '--', '-D', 'warnings'] })
    commands.push({ run: ['node', 'tests/rust-tests.mjs', ...(isOfAll ? [] : crates)] })
  }
  if (files.some(isDocument)) {
    commands.push(make('docs-links'))
    // The crate's tests read the commands in every document.
    const isTested = crates.includes('watchfire-cli')
    if (!isTested) commands.push({ run: [CARGO, 'test', '--quiet', ...workspaceArgs, '--test', 'all', 'documented_commands'] })
  }
  if (files.some((file) => file.startsWith('clients/javascript/'))) commands.push(make('client-test'))
  const vectors = files.some((file) => file.startsWith('tests/vectors/'))
  if (vectors || files.some((file) => /^(?:web|clients\/javascript)\//.test(file))) {
    commands.push({ in: 'web', run: ['npm', 'run', '--silent', 'typecheck'] })
    // Vitest follows imports, and the vectors are read as files.
    commands.push({ in: 'web', run: ['npx', 'vitest', 'run', ...(vectors ? [] : ['--changed', base])] })
  }
  return commands
}

function make(target) {
  return { run: ['make', '--no-print-directory', target] }
}

/** The crate that a file is a part of, for the crates that depend on it too. */
function cratesWithSource(file) {
  const own = crateOf(file)
  return own && !file.startsWith(`${own.folder}/tests/`) ? [own.name] : []
}

/** The crates whose tests read a file: the one around it, or those that name vectors, `config.example.toml` or a document. */
function cratesWithTestsOf(file) {
  const own = crateOf(file)
  if (own) return [own.name]
  // Its tests read all experiments.
  if (file.startsWith('experiments/')) return ['watchfire-cli']
  const [, kind, vectors, ...below] = file.split('/')
  const named = kind === 'vectors' && below.length > 0 ? `vectors/${vectors}` : path.basename(file)
  const sources = lines(
    git('grep', '--files-with-matches', '--fixed-strings', named, '--', ...workspace.map(({ folder }) => `${folder}/*.rs`)),
  )
  return sources.map((source) => crateOf(source).name)
}

function crateOf(file) {
  return workspace.find(({ folder }) => file.startsWith(`${folder}/`))
}

/** These crates, and all that depend on one of them. */
function withDependents(names) {
  const found = new Set(names)
  for (let size = -1; size !== found.size; ) {
    size = found.size
    for (const { name, dependencies } of workspace) if (dependencies.some((one) => found.has(one))) found.add(name)
  }
  return [...found].sort()
}

/** The crates of the workspace: their names, folders and dependencies, also those of their tests. */
function readWorkspace() {
  const metadata = JSON.parse(run(CARGO, 'metadata', '--no-deps', '--format-version', '1'))
  return metadata.packages.map(({ name, manifest_path: manifest, dependencies }) => ({
    name,
    folder: path.relative(process.cwd(), path.dirname(manifest)),
    dependencies: dependencies.filter(({ path }) => path).map(({ name }) => name),
  }))
}

/** The make targets with outside software that these files touch, most of which take minutes. */
function suitesOf(files) {
  const found = files.flatMap((file) => {
    const [top, second, third, fourth] = file.split('/')
    if (top === 'crates') return SUITES[second] ?? []
    if (top === 'web') return WEB_SUITES
    // The web client uses this part of the npm client.
    if (file.startsWith('clients/javascript/src/connection/')) return ['test-client', ...WEB_SUITES]
    if (top === 'clients') return ['test-client']
    if (file.startsWith('experiments/gate')) return ['gate']
    if (top === 'experiments') return suitesOf(lines(git('grep', '-l', '--fixed-strings', `experiments/${second}`, '--', 'tests/interop')))
    if (file === 'README.md' || file.startsWith('docs/tutorial/')) return ['test-tutorials']
    if (top !== 'tests' || second !== 'interop') return []
    const inner = `${third}/${fourth}`
    const folder = inner in SUITE_OF_FOLDER ? inner : third
    return isFolder(`tests/interop/${folder}`) && folder !== 'lib' ? [SUITE_OF_FOLDER[folder] ?? `test-${folder}`] : []
  })
  return [...new Set(found)].sort()
}

function isFolder(folder) {
  try {
    return readdirSync(folder).length > 0
  } catch {
    return false
  }
}

function isKnown(branch) {
  return spawnSync('git', ['rev-parse', '--quiet', '--verify', branch]).status === 0
}

function run(program, ...args) {
  return execFileSync(program, args, { encoding: 'utf8', maxBuffer: 2 ** 26 })
}

/** The output of git; empty when `git grep` finds nothing. */
function git(...args) {
  const { status, stdout, stderr } = spawnSync('git', args, { encoding: 'utf8', maxBuffer: 2 ** 26 })
  if (status !== 0 && !(args[0] === 'grep' && status === 1)) throw new Error(`git ${args.join(' ')}: ${stderr}`)
  return stdout
}

function lines(text) {
  return text.split('\n').filter(Boolean)
}
