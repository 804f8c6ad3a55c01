// Runs the Rust tests of all crates, or of those that are named: two test programs at a time, while `cargo test` runs them one
// after another. Most programs wait for sockets and clocks longer than they compute, so a second program uses the processor
// meanwhile. Prints the seconds of the slowest programs.
//
//   node tests/rust-tests.mjs [CRATE...]
//
// It compiles the whole workspace in any case: with fewer crates, cargo would choose other features for their dependencies, and
// compile those again. WORKSPACE has the arguments that choose crates and features, as in the Makefile.

import { spawn, spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** The needs of some tests, by the words after `needs` in their `#[ignore]`: they run where the need is met, and are counted elsewhere. */
const NEEDS = {
  'network namespaces and TUN devices': () => existsSync('/dev/net/tun') && spawnSync('unshare', ['--net', '--mount', 'true']).status === 0,
  'control groups that it may change': () => isWritable('/sys/fs/cgroup'),
  'docker-registry and skopeo': () => areInstalled('docker-registry', 'skopeo'),
  IPv6: () => networkInterfaces().lo?.some(({ family }) => family === 'IPv6'),
  'mounts in user namespaces': () =>
    spawnSync('unshare', ['--user', '--map-root-user', '--mount', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0,
  'an SSH server': () => existsSync('/usr/sbin/sshd') && areInstalled('ssh', 'ssh-keygen'),
  'root and containerd with its tools': () =>
    process.getuid?.() === 0 && areInstalled('docker-registry', 'skopeo', 'nginx', 'containerd', 'ctr', 'unshare'),
}
const AT_A_TIME = 2
const SLOWEST = 12
/** The time after the end of a program in which its output must end. */
const LEFT_MS = 10_000
const CARGO = process.env.CARGO || 'cargo'
const WORKSPACE = (process.env.WORKSPACE || '--workspace').split(' ').filter(Boolean)
const asked = process.argv.slice(2)
process.chdir(fileURLToPath(new URL('..', import.meta.url)))

const programs = (await compile()).filter(({ crate }) => asked.length === 0 || asked.includes(crate))
// Large programs take longest, and begin first, so that none is left alone at the end.
programs.sort((a, b) => statSync(b.command).size - statSync(a.command).size)
// The documentation tests compile while they run. Their names begin with the folders of their crates.
const documented = asked.length > 0 ? ['--', ...new Set(programs.map(({ folder }) => `${folder}/`))] : []
const waiting = [
  { name: 'documentation tests', command: CARGO, args: ['test', '--quiet', '--doc', ...WORKSPACE, ...documented], folder: '.' },
  ...programs,
]
const done = []
const ignored = []
await Promise.all(Array.from({ length: AT_A_TIME }, work))

for (const { name, seconds } of done.sort((a, b) => b.seconds - a.seconds).slice(0, SLOWEST))
  console.log(`${seconds.toFixed(1).padStart(6)} s  ${name}`)
for (const line of ignored) console.log(`ignored: ${line}`)
const failed = done.filter(({ ok }) => !ok)
for (const { name, folder } of failed) console.error(`failed: ${name} in ${folder}`)
process.exitCode = failed.length > 0 ? 1 : 0

/** Compiles all test programs, and returns them with the folders of their crates. */
async function compile() {
  const { ok, stdout } = await run(CARGO, ['test', '--quiet', '--no-run', '--message-format=json-render-diagnostics', ...WORKSPACE], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (!ok) process.exit(1)
  const artifacts = stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
  return artifacts
    .filter(({ executable, profile }) => executable && profile.test)
    .map(({ executable, manifest_path: manifest, package_id: id, target }) => {
      const folder = path.relative('.', path.dirname(manifest))
      const name = `${folder}: ${target.kind[0] === 'test' ? target.name : 'units'}`
      // Cargo itself must not have this variable: the build script of a dependency would run again, and most crates be compiled again.
      const env = { CARGO_MANIFEST_DIR: path.resolve(folder) }
      return { name, crate: crateOf(id, folder), command: executable, args: [], folder, env }
    })
}

/** The name in the id of a package, such as `path+file:///watchfire/crates/hub#watchfire-hub@0.1.0`, or `.../chat#0.1.0`. */
function crateOf(id, folder) {
  return /#(.+)@/.exec(id)?.[1] ?? path.basename(folder)
}

/** Runs one program after another, until none waits. */
async function work() {
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const { name, command, args, folder, env } = next
    const started = performance.now()
    const options = { cwd: folder, env: { ...process.env, CARGO, ...env }, stdio: ['ignore', 'pipe', 'pipe'] }
    let { ok, stdout, stderr } = await run(command, args, options)
    for (const [, count, why] of stdout.matchAll(/(\d+) ignored: (.*)/g)) ignored.push(`${count} of ${name}: ${why}`)
    for (const [need, names] of needs(stdout)) {
      if (!NEEDS[need]?.()) {
        ignored.push(`${names.length} of ${name}, which need ${need}`)
        continue
      }
      const more = await run(command, ['--exact', '--ignored', ...names], options)
      ok &&= more.ok
      stdout += more.stdout
      stderr += more.stderr
    }
    done.push({ name, folder, ok, seconds: (performance.now() - started) / 1000 })
    // The lines of two programs must not mix.
    process.stdout.write(ok ? `${name}: ${summary(stdout)}\n` : `\n${name}\n${stdout}${stderr}\n`)
  }
}

/** The names of ignored tests, by what they need. */
function needs(output) {
  const names = new Map()
  for (const [, test, need] of output.matchAll(/^test (\S+) \.\.\. ignored, needs ([^:\n]+)/gm)) {
    names.set(need, [...(names.get(need) ?? []), test])
  }
  return names
}

function areInstalled(...programs) {
  const folders = (process.env.PATH ?? '').split(':')
  return programs.every((program) => folders.some((folder) => existsSync(path.join(folder, program))))
}

function isWritable(folder) {
  try {
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** How many tests passed, of all summaries in an output. */
function summary(output) {
  const passed = [...output.matchAll(/^test result: ok\. (\d+) passed/gm)].reduce((sum, [, count]) => sum + Number(count), 0)
  return `${passed} passed`
}

function run(command, args, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, options)
    const output = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr']) child[name]?.setEncoding('utf8').on('data', (text) => (output[name] += text))
    child.once('error', reject)
    let isLeft = false
    let timer
    // A process that it left behind would keep its output open for ever.
    child.once('exit', () => {
      timer = setTimeout(() => {
        isLeft = true
        output.stderr += `${command} left a process that holds its output\n`
        child.stdout?.destroy()
        child.stderr?.destroy()
      }, LEFT_MS)
    })
    child.once('close', (code) => {
      clearTimeout(timer)
      resolve({ ok: code === 0 && !isLeft, ...output })
    })
  })
}
