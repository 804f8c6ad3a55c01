// Tests the crates, documents, client and web modules that differ from main, committed or not, and the crates that depend on those.
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
  api: ['interop-channels', 'interop-client', 'test-tutorials', 'test-traces'],
  auth: ['interop-channels', 'interop-client'],
  bitswap: ['interop-browser', 'interop-kubo', 'interop-command-line'],
  certificates: ['interop-tls'],
  channels: ['interop-channels', 'interop-client'],
  cli: ['interop-command-line', 'interop-tls'],
  cluster: ['interop-channels-3', 'test-processes', 'test-cluster', 'test-faults', 'test-observe'],
  content: ['interop-browser', 'interop-kubo', 'interop-command-line'],
  fleet: ['test-mirror'],
  hooks: ['interop-channels'],
  https: ['interop-tls'],
  hub: ['interop-channels', 'interop-channels-3', 'test-cluster', 'test-faults'],
  load: ['interop-browser'],
  metrics: ['test-observe'],
  mirror: ['test-mirror'],
  operator: ['test-observe', 'test-profiles'],
  p2p: ['interop-kubo', 'interop-command-line', 'test-mirror'],
  'page-client': ['interop-browser', 'interop-command-line', 'test-live'],
  pages: ['interop-browser', 'interop-kubo', 'test-processes', 'test-proxies'],
  server: ['interop-channels', 'interop-client', 'interop-browser', 'interop-tls', 'test-proxies', 'test-observe', 'test-tutorials'],
  settings: ['interop-command-line'],
  sockets: ['interop-channels', 'interop-tls', 'test-proxies'],
  store: ['interop-command-line', 'interop-kubo', 'test-mirror'],
  traces: ['test-traces'],
  tracker: ['interop-browser', 'test-processes'],
  wire: ['test-networks'],
}

/** The make targets that try the web client. */
const WEB_SUITES = ['interop-browser', 'test-early', 'test-walks', 'test-live', 'test-tab', 'test-embed']

/** The make target of a folder of tests/interop; the others have a target of their own name. */
const SUITE_OF_FOLDER = {
  'browser/early': 'test-early',
  'browser/walks': 'test-walks',
  'browser/live': 'test-live',
  gateway: 'interop-kubo',
  peers: 'interop-command-line',
  processes: 'interop-command-line',
  tsung: 'interop-browser',
  pebble: 'interop-tls',
  package: 'test-package',
  soak: 'soak',
  nats: 'test-cluster',
  otelcol: 'test-traces',
}
const IN_CI = ['channels', 'client', 'browser', 'kubo', 'tls']

const asked = process.argv.slice(2)
const base = git('merge-base', 'HEAD', isKnown('origin/main') ? 'origin/main' : 'main').trim()
const changed =
  asked.length > 0 ? asked : [...lines(git('diff', '--name-only', base)), ...lines(git('ls-files', '--others', '--exclude-standard'))]
const workspace = readWorkspace()
const tests = testsOf(changed)
for (const command of tests) {
  console.log(`${command.in ? `(in ${command.in}) ` : ''}${command.run.join(' ')}`)
  if (asked.length > 0) continue
  const { status } = spawnSync(command.run[0], command.run.slice(1), { stdio: 'inherit', cwd: command.in })
  if (status !== 0) process.exit(status ?? 1)
}
const suites = suitesOf(changed)
if (suites.length > 0) console.log(`also affected, and not run: make ${suites.join(' ')}`)

/** The commands that test these files. */
function testsOf(files) {
  const commands = []
  const crates = [...new Set([...withDependents(files.flatMap(cratesWithSource)), ...files.flatMap(cratesWithTestsOf)])].sort()
  if (files.some((file) => file === 'Cargo.lock' || file === 'Cargo.toml')) commands.push({ run: ['node', 'tests/rust-tests.mjs'] })
  else if (crates.length > 0) commands.push({ run: ['node', 'tests/rust-tests.mjs', ...crates] })
  if (files.some((file) => file.endsWith('.md'))) commands.push({ run: ['make', '--no-print-directory', 'docs-links'] })
  if (files.some((file) => file.startsWith('clients/javascript/'))) commands.push({ run: ['make', '--no-print-directory', 'client-test'] })
  const vectors = files.some((file) => file.startsWith('tests/vectors/'))
  if (vectors || files.some((file) => /^(?:web|clients\/javascript)\//.test(file))) {
    commands.push({ in: 'web', run: ['npm', 'run', '--silent', 'typecheck'] })
    // Vitest follows imports, and the vectors are read as files.
    commands.push({ in: 'web', run: ['npx', 'vitest', 'run', ...(vectors ? [] : ['--changed', base])] })
  }
  return commands
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
    if (file.startsWith('clients/javascript/src/connection/')) return ['interop-client', ...WEB_SUITES]
    if (top === 'clients') return ['interop-client']
    if (top !== 'tests' || second !== 'interop') return []
    const inner = `${third}/${fourth}`
    const folder = inner in SUITE_OF_FOLDER ? inner : third
    return isFolder(`tests/interop/${folder}`) && folder !== 'lib'
      ? [SUITE_OF_FOLDER[folder] ?? (IN_CI.includes(folder) ? `interop-${folder}` : `test-${folder}`)]
      : []
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
