// Shows that the gate finds a slow-down of a tenth, and is silent about commits that change nothing.
//
//   node experiments/gate/proof.mjs [--slow-downs-only | --harmless-only]
//
// Works in a clone of the last commit, in target/gate-proof. A slow-down is a loop at one place of the exchange, of a delivery or of a join,
// as long as makes its workload a tenth slower: four places of each, and five runs of the gate for each place. Then follow
// twenty commits that a reviewer would call harmless, each on top of the last: a local is renamed, a comment added, two
// functions change places. The gate runs after each, and compares with the values from before the first.

import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

import { WORKLOAD_NAMES } from './counts.mjs'

const { values: options } = parseArgs({ options: { 'slow-downs-only': { type: 'boolean' }, 'harmless-only': { type: 'boolean' } } })
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const CARGO = process.env.CARGO || 'cargo'
const FOLDER = path.join(path.resolve(ROOT, process.env.CARGO_TARGET_DIR || 'target'), 'gate-proof')
const CLONE = path.join(FOLDER, 'clone')
const RESULT = path.join(FOLDER, 'result.json')
const SLOWER = 0.1
const RUNS_PER_PLACE = 5
/** The length of a first loop, which tells how much a turn costs. */
const TURNS = 50

/** Every workload; the simulator, which is deterministic, is left out. */
const ALL = WORKLOAD_NAMES.join(',')

/** Places by workload: the file, and the line after which the loop stands. */
const PLACES = {
  exchange: [
    ['crates/bitswap/src/exchange.rs', 'pub fn handle_message(&mut self, now: Instant, peer: P, message: Message<B>) {'],
    ['crates/bitswap/src/exchange.rs', 'pub fn poll_output(&mut self) -> Option<Output<P, B>> {'],
    ['crates/bitswap/src/exchange.rs', 'fn handle_block(&mut self, peer: P, block: B) -> bool {'],
    ['crates/bitswap/src/exchange.rs', 'fn send_pending(&mut self, peer: P) {'],
  ],
  delivery: [
    ['crates/hub/src/hub.rs', 'let member = members[position as usize];'],
    ['crates/hub/src/fan_out.rs', 'let position = self.cursor;'],
    ['crates/hub/src/hub.rs', 'let visits = budget.min(TURN_VISITS);'],
    ['crates/channels/src/codec/mod.rs', 'let &Broadcast { topic, event, payload } = broadcast;'],
  ],
  join: [
    ['crates/channels/src/codec/mod.rs', "pub fn decode_text(serializer: Serializer, frame: &str) -> Result<Message<'_>, DecodeError> {"],
    ['crates/hub/src/hub.rs', 'let known = self.find_topic(hash, topic);'],
    ['crates/hub/src/presence/mod.rs', 'let topic = self.find_topic(topic).unwrap_or_else(|| self.open_topic(topic));'],
    ['crates/channels/src/frame.rs', "pub fn of(join: &Message<'_>) -> JoinRef {"],
  ],
}

/** @type {[string, string, ...string[]][]} */
const HARMLESS = [
  ['rename', 'crates/hub/src/hub.rs', 'subscribe', 'known', 'existing'],
  ['comment', 'crates/hub/src/hub.rs', 'take_turn'],
  ['swap', 'crates/hub/src/hub.rs', 'forget_topic', 'remove_member'],
  ['rename', 'crates/hub/src/fan_out.rs', 'next_member', 'position', 'place'],
  ['swap', 'crates/hub/src/fan_out.rs', 'len', 'push'],
  ['rename', 'crates/hub/src/presence/mod.rs', 'track', 'version', 'first'],
  ['swap', 'crates/hub/src/presence/diff.rs', 'sort', 'compare'],
  ['rename', 'crates/bitswap/src/exchange.rs', 'handle_message', 'unsolicited', 'unknown_blocks'],
  ['swap', 'crates/bitswap/src/exchange.rs', 'handle_presence', 'handle_block'],
  ['comment', 'crates/bitswap/src/exchange.rs', 'settle'],
  ['swap', 'crates/bitswap/src/uplink.rs', 'take_room', 'batch_bytes_max'],
  ['rename', 'crates/bitswap/src/uplink.rs', 'handle_left', 'took', 'duration'],
  ['swap', 'crates/bitswap/src/requester/wants.rs', 'remove', 'set_urgent'],
  ['comment', 'crates/bitswap/src/message/decode.rs', 'decode'],
  ['swap', 'crates/channels/src/codec/mod.rs', 'encode_close', 'encode_error'],
  ['rename', 'crates/channels/src/reference.rs', 'from_text', 'plain', 'is_plain'],
  ['comment', 'crates/channels/src/reference.rs', 'from_json'],
  ['rename', 'crates/content/src/file_builder.rs', 'write', 'room', 'free'],
  ['swap', 'crates/content/src/block.rs', 'raw', 'dag_pb'],
  ['swap', 'crates/types/src/slab.rs', 'len', 'is_empty'],
]

/** How a harmless commit changes a text. */
const EDITS = {
  rename(text, name, from, to) {
    const { start, end } = itemOf(text, name)
    const item = text.slice(start, end).replace(new RegExp(`(?<![.\\w])${from}\\b(?!:)`, 'g'), to)
    return text.slice(0, start) + item + text.slice(end)
  },
  comment(text, name) {
    const { start } = itemOf(text, name)
    const indent = text.slice(start).match(/^ */)[0]
    return `${text.slice(0, start)}${indent}// A comment that says something new,\n${indent}// in two lines.\n${text.slice(start)}`
  },
  swap(text, one, other) {
    const [first, second] = [itemOf(text, one), itemOf(text, other)].sort((a, b) => a.start - b.start)
    const part = ({ start, end }) => text.slice(start, end)
    return text.slice(0, first.start) + part(second) + text.slice(first.end, second.start) + part(first) + text.slice(second.end)
  },
}

mkdirSync(FOLDER, { recursive: true })
if (existsSync(CLONE)) execFileSync('rm', ['-rf', CLONE])
execFileSync('git', ['clone', '--quiet', '--shared', ROOT, CLONE])
build()
gate('--accept')
git('commit', '--quiet', '--allow-empty', '--all', '--message', 'gate: the values of this commit')
const base = git('rev-parse', 'HEAD').trim()
const result = { commit: git('log', '-1', '--format=%h', 'HEAD~1').trim(), slowDowns: [], harmless: [] }
if (!options['harmless-only'])
  for (const at of PLACES.join.keys()) plant(Object.entries(PLACES).map(([workload, places]) => [workload, places[at]]))
git('reset', '--quiet', '--hard', base)
if (!options['slow-downs-only']) for (const edit of HARMLESS) change(edit)
writeFileSync(RESULT, `${JSON.stringify(result, null, 2)}\n`)
summarize()

/**
 * Plants a loop at one place of each workload. How long the loops are is read from the environment, so that one program shows several.
 *
 * @param {[string, string[]][]} places
 */
function plant(places) {
  git('reset', '--quiet', '--hard', base)
  for (const [at, [, [file, line]]] of places.entries()) {
    edit(file, (text) => {
      const parts = text.split(`${line}\n`)
      if (parts.length !== 2) throw new Error(`${file}: expected "${line}" once, found it ${parts.length - 1} times`)
      return parts.join(`${line}\n${loop(`PLANTED_${at}`)}\n`)
    })
  }
  git('commit', '--quiet', '--all', '--message', 'gate: loops')
  build()
  for (const [at, [workload, [file, line]]] of places.entries()) {
    const slower = (turns) => {
      process.env[`PLANTED_${at}`] = `${turns}`
      const { status, output } = gate('--only', workload)
      const rows = JSON.parse(readFileSync(path.join(FOLDER, 'rows.json'), 'utf8'))
      const { change } = rows.find(({ figure }) => figure === `${workload}: instructions`)
      return { change, isFound: status === 1 && output.includes(`${workload}: instructions is worse`) }
    }
    const [none, some] = [slower(0).change, slower(TURNS).change]
    const turns = Math.round(((SLOWER - none) / (some - none)) * TURNS)
    const runs = Array.from({ length: RUNS_PER_PLACE }, () => slower(turns))
    delete process.env[`PLANTED_${at}`]
    const [found, [{ change }]] = [runs.filter(({ isFound }) => isFound).length, runs]
    result.slowDowns.push({ workload, file, line, slower: change, found, runs: runs.length })
    console.log(`${workload}, ${file}, "${line}": ${(change * 100).toFixed(1)} % slower, found in ${found} of ${runs.length} runs`)
  }
}

function loop(name) {
  return `{
    static TURNS: std::sync::LazyLock<u32> =
        std::sync::LazyLock::new(|| std::env::var("${name}").map_or(0, |turns| turns.parse().unwrap()));
    for turn in 0..*TURNS { std::hint::black_box(turn); }
  }`
}

function change([kind, file, ...names]) {
  edit(file, (text) => EDITS[kind](text, ...names))
  git('commit', '--quiet', '--all', '--message', `gate: ${kind} ${names.join(' ')}`)
  build()
  const { status, output } = gate('--only', ALL)
  const rows = JSON.parse(readFileSync(path.join(FOLDER, 'rows.json'), 'utf8'))
  const most = Math.max(...rows.map((row) => Math.abs(row.change)))
  result.harmless.push({ kind, file, names, isSilent: status === 0, most })
  console.log(
    `${kind} ${names.join(' ')} in ${file}: ${status === 0 ? 'silent' : `NOT SILENT\n${output}`}, at most ${(most * 100).toFixed(2)} %`,
  )
}

/** The item of a function with its comments and attributes: its start, and its end after the line that closes it. */
function itemOf(text, name) {
  const found = text.match(new RegExp(`\\n( *)(pub(\\([^)]*\\))? )?(const )?fn ${name}\\b`))
  if (!found) throw new Error(`no function ${name}`)
  const [, indent] = found
  let start = found.index + 1
  for (;;) {
    const before = text.lastIndexOf('\n', start - 2) + 1
    if (!/^ *(\/\/|#\[)/.test(text.slice(before, start))) break
    start = before
  }
  const end = text.indexOf(`\n${indent}}\n`, found.index) + indent.length + 3
  return { start, end }
}

function edit(file, change) {
  const whole = path.join(CLONE, file)
  const text = readFileSync(whole, 'utf8')
  const changed = change(text)
  if (changed === text) throw new Error(`${file}: the edit changes nothing`)
  writeFileSync(whole, changed)
}

function build() {
  const { status, output } = spawn(CARGO, ['build', '--quiet', '--offline', '--profile', 'gate', '--package', 'watchfire-gate'])
  if (status !== 0) throw new Error(output)
}

function gate(...args) {
  const only = args.includes('--only') ? [] : ['--only', ALL]
  return spawn('node', ['experiments/gate/gate.mjs', ...args, ...only, '--json', path.join(FOLDER, 'rows.json')])
}

function spawn(command, args) {
  const env = { ...process.env, CARGO_TARGET_DIR: FOLDER }
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: CLONE, env, encoding: 'utf8' })
  if (error) throw error
  return { status, output: stdout + stderr }
}

function git(...args) {
  const identity = ['-c', 'user.name=proof', '-c', 'user.email=proof@localhost']
  return execFileSync('git', [...identity, ...args], { cwd: CLONE, encoding: 'utf8' })
}

function summarize() {
  for (const workload of Object.keys(PLACES)) {
    const places = result.slowDowns.filter((place) => place.workload === workload)
    if (places.length === 0) continue
    const [found, runs] = ['found', 'runs'].map((field) => places.reduce((sum, place) => sum + place[field], 0))
    console.log(`${workload}: found in ${found} of ${runs} runs`)
    if (found < runs) process.exitCode = 1
  }
  if (result.harmless.length > 0) {
    const silent = result.harmless.filter(({ isSilent }) => isSilent).length
    console.log(`harmless commits: silent after ${silent} of ${result.harmless.length}`)
    if (silent < result.harmless.length) process.exitCode = 1
  }
  console.log(`the result is in ${RESULT}`)
}
