// Does what a document says, in its order: types its commands, writes its files, and compares what it shows with what is printed.

import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { accepts } from '../lib/listen.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { binary, environment, start } from '../lib/server.mjs'

export const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url))
const PHOENIX = fileURLToPath(new URL('../node_modules/phoenix-1.8.16', import.meta.url))
/** The longest that a command takes, on a machine that may be very busy. */
const COMMAND_MS = 10 * 60_000

/** Commands that are not run: how each begins, and the reason. */
export const NOT_RUN = {
  sudo: 'changes this machine; `make test-dist` runs the commands of the README in a fresh root, and `make tools` installs packages',
  docker: 'needs a container engine; `make test-dist` starts the image',
  'podman pull': 'needs a container engine; `make test-mirror` runs podman',
  'watchfire top': 'needs a terminal; `make test-observe` runs it',
  'watchfire lab compare': 'builds two commits; `make compare-proof` runs it',
}
/** Further exit codes of commands that did what the document says. */
const ALSO_GOOD = { 'watchfire load': 3 /* A busy machine breaks a threshold. */ }

/** Parts of shown output that differ in each run: addresses, and names that end with `…`. They stay the same within a document. */
const VARYING = /\/ip4\/[\d.]+\/tcp\/\d+|\w*…/
/** This much of a name is the same for all names of a kind, such as CIDs of folders. */
const KIND_LENGTH = 5

const BLOCK = /^( *)```(.*)\n([\s\S]*?)^\1```$/gm

/**
 * The code blocks of a Markdown text below each heading, with the names of the files that they are.
 * @param {string} text
 */
export function sectionsOf(text) {
  const sections = text.split(/^#+ (?=.*\n\n)/m).map((section) => {
    const blocks = [...section.matchAll(BLOCK)].map(({ 1: indent, 2: language, 3: code, index }) => ({
      language,
      code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
      file: /^`([\w.]+)`:\n\n$/m.exec(section.slice(0, index))?.[1],
    }))
    return { heading: section.split('\n', 1)[0], blocks }
  })
  return sections.filter(({ blocks }) => blocks.length > 0)
}

/**
 * The commands of a block, each with the lines that it prints. A block of `sh` shows no output.
 * @param {{ language: string, code: string }} block
 */
export function commandsOf({ language, code }) {
  const prompt = language === 'console' ? '$ ' : ''
  const commands = []
  for (const line of code.trimEnd().split('\n')) {
    const last = commands.at(-1)
    if (last?.command.endsWith('\\')) last.command += `\n${line}`
    else if (line.startsWith(prompt)) commands.push({ command: line.slice(prompt.length).replace(/ +# .*$/, ''), shown: [] })
    else last.shown.push(line)
  }
  return commands.filter(({ command }) => command !== '')
}

const beginsWith = (/** @type {string} */ command, /** @type {string} */ words) => `${command} `.startsWith(`${words} `)

/** The words of `NOT_RUN` with which a part of a command begins. */
export const notRunIn = (/** @type {string} */ command) =>
  Object.keys(NOT_RUN).find((words) => command.split(/ [|&]+ /).some((part) => beginsWith(part, words)))

/** A reader of one document, in a folder that looks like a clone of the repository. */
export class Reader {
  folder = path.join(newFolder(), 'watchfire')
  text = ''
  sections = []
  /** The names of the files that the document had it write. */
  files = []
  /** The port of this reader for each port on this machine that the document names. */
  ports = {}
  /** @type {import('../lib/server.mjs').Server | undefined} */
  server
  #env
  #shell
  #terminals = []
  /** The text for each varying part that the document showed. */
  #values = new Map()
  #handlers

  /**
   * `edit` changes the text where this machine differs, `programs` are folders of further programs, and `handlers` run blocks in
   * other languages than `sh` and `console`.
   * @param {string} document
   * @param {{ edit?: (text: string) => string, programs?: string[], env?: object, handlers?: Record<string, (code: string) => unknown> }} options
   */
  static async open(document, { edit = (text) => text, programs = [], env = {}, handlers = {} } = {}) {
    const reader = new Reader()
    reader.text = edit(readFileSync(REPOSITORY + document, 'utf8'))
    const named = /(?<=(?:localhost|127\.0\.0\.1):|--port )\d{4}\b/g
    const ports = [...new Set(['4000', '4010', ...(reader.text.match(named) ?? [])])]
    const free = await listeningPorts(ports.length)
    reader.ports = Object.fromEntries(ports.map((port, index) => [port, free[index]]))
    reader.sections = sectionsOf(reader.text.replace(named, (port) => String(reader.ports[port])))
    mkdirSync(reader.folder)
    for (const name of ['crates', 'examples', 'experiments', 'Cargo.toml']) symlinkSync(REPOSITORY + name, path.join(reader.folder, name))
    const folders = [path.dirname(binary('watchfire')), ...programs]
    reader.#env = { ...environment(), DISPLAY: '', XDG_CACHE_HOME: reader.folder, ...env, PATH: `${folders.join(':')}:${process.env.PATH}` }
    reader.#handlers = handlers
    return reader
  }

  /** Does what a section says; without a heading, all of the document. */
  async follow(heading) {
    const found = this.sections.filter((section) => heading === undefined || section.heading === heading)
    assert.notEqual(found.length, 0, `no section "${heading}"`)
    for (const block of found.flatMap(({ blocks }) => blocks)) await this.#do(block)
  }

  async #do({ language, code, file }) {
    if (file) {
      this.files.push(file)
      return writeFileSync(path.join(this.folder, file), code)
    }
    const handler = this.#handlers[language]
    if (handler) return handler(code)
    assert.match(language, /^(sh|console)$/, `a block begins with sh or console, or with another language: ${code}`)
    for (const { command, shown } of commandsOf({ language, code })) {
      if (notRunIn(command)) continue
      if (beginsWith(command, 'make serve')) await this.#serve(command)
      else if (language === 'sh') await this.#type(command)
      else await this.#runInTerminal(this.#known(command), shown)
    }
  }

  /** Stops the server that runs, and starts the built program with the arguments that `make serve` gives it. */
  async #serve(command) {
    await this.server?.stop()
    const recipe = execFileSync('bash', ['-c', command.replace('make', 'make --dry-run --no-print-directory')], {
      cwd: REPOSITORY,
      encoding: 'utf8',
    })
    const [program, ...args] = recipe.trim().split('\n').at(-1).split(' ')
    assert.equal(path.basename(program), 'watchfire')
    const own = ['--listen', `127.0.0.1:${this.ports[4000]}`, '--set', `admin.listen=127.0.0.1:${this.ports[4010]}`]
    const ready = /^Watchfire is running at http:\/\/localhost:(\d+)$/
    this.server = await start(binary('watchfire'), [...args, ...own, '--set', 'server.drain_period=100ms'], ready)
  }

  /** Types a command into the shell, and waits until it ends; if it runs in the background, until it listens. */
  async #type(command) {
    this.#shell ??= this.#spawn(['-em'])
    const { child, hasEnded } = this.#shell
    const mark = `typed ${this.#shell.output.length} ${Math.random()}`
    child.stdin.write(`${command}\necho '${mark}'\n`)
    const output = () => this.#shell.output
    const isDone = () => output().includes(mark) || hasEnded()
    await waitUntil(isDone, () => `the end of ${command}\n${output()}`, COMMAND_MS)
    assert(!hasEnded(), `${command} failed\n${output()}`)
    if (!command.endsWith('&')) return
    const ports = command.match(/(?<=127\.0\.0\.1:|--port )\d+/g) ?? []
    for (const port of ports)
      await waitUntil(
        () => hasEnded() || accepts(Number(port)),
        () => `${command} listens\n${output()}`,
      )
  }

  /** Runs a command until it ends; or until it has printed what the document shows, and then it runs on. */
  async #runInTerminal(command, shown) {
    const terminal = this.#spawn(['-c', command], 'ignore')
    const isShown = () => shown.length > 0 && this.#learn(shown, terminal.output, '')
    const isDone = () => terminal.hasEnded() || isShown()
    await waitUntil(isDone, () => `${command} ends or prints\n${shown.join('\n')}\nand not\n${terminal.output}`, COMMAND_MS)
    if (!terminal.hasEnded()) return
    const { exitCode } = terminal.child
    const also = Object.entries(ALSO_GOOD).find(([words]) => beginsWith(command, words))?.[1]
    assert(exitCode === 0 || exitCode === also, `${command} ended with ${exitCode}\n${terminal.output}`)
    const isSame = shown.length === 0 || this.#learn(shown, terminal.output, '$')
    assert(isSame, `${command} prints\n${terminal.output}\nand the document shows\n${shown.join('\n')}`)
  }

  /** Starts a script that uses npm `phoenix`; its output is the `output` of what this returns. */
  startScript(code) {
    const modules = path.join(this.folder, 'node_modules')
    if (!existsSync(modules)) {
      mkdirSync(modules)
      symlinkSync(PHOENIX, path.join(modules, 'phoenix'))
    }
    const file = path.join(this.folder, `script-${this.#terminals.length}.mjs`)
    writeFileSync(file, code)
    return this.#spawn([file], 'ignore', process.execPath)
  }

  #spawn(args, stdin = 'pipe', program = 'bash') {
    const child = spawn(program, args, {
      cwd: this.folder,
      env: this.#env,
      detached: true,
      stdio: [/** @type {any} */ (stdin), 'pipe', 'pipe'],
    })
    const terminal = { child, output: '', hasEnded: () => isClosed }
    let isClosed = false
    child.once('close', () => (isClosed = true))
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (terminal.output += text))
    this.#terminals.push(terminal)
    return terminal
  }

  /** The text with what stands for its varying parts. */
  #known(text) {
    return text.replaceAll(new RegExp(VARYING, 'g'), (part) => this.#values.get(part) ?? part)
  }

  /** Whether the output begins with what is shown, where `...` stands for any lines; remembers the varying parts if so. */
  #learn(shown, output, end) {
    const names = []
    const patternOf = (/** @type {string} */ line) => {
      if (line === '...') return '(?:.*\n)*?'
      const parts = line.split(new RegExp(`(${VARYING.source})`))
      return `${parts.map((part, index) => (index % 2 === 0 ? escaped(part) : this.#varying(part, names))).join('')}\n`
    }
    const match = new RegExp(`^${shown.map(patternOf).join('')}${end}`).exec(output)
    for (const [index, name] of match ? names.entries() : []) this.#values.set(name, match[index + 1])
    return match !== null
  }

  /** The pattern of a varying part, whose value is the next group if it was not shown before. */
  #varying(part, names) {
    if (part === '…') return '.*'
    const known = this.#values.get(part)
    if (known) return escaped(known)
    if (names.includes(part)) return `\\${names.indexOf(part) + 1}`
    names.push(part)
    return part.startsWith('/') ? '(/ip4/[\\d.]+/tcp/\\d+)' : `(${part.slice(0, Math.min(KIND_LENGTH, part.length - 1))}\\w+)`
  }

  /** Ends everything that runs. */
  async close() {
    for (const { child, hasEnded } of this.#terminals) {
      if (hasEnded()) continue
      // Each job of the shell is a process group of its own.
      const jobs = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ').filter(Boolean)
      for (const pid of [...jobs, child.pid]) process.kill(Number(pid), 'SIGTERM')
      await waitUntil(hasEnded, 'a command ends')
    }
    await this.server?.stop()
  }
}

/** A pattern that matches this text alone. */
const escaped = (/** @type {string} */ text) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')

/** Waits until one of these programs has printed a text. */
export function printedBy(terminals, text) {
  const outputs = () => terminals.map(({ output }) => output)
  return waitUntil(
    () => outputs().some((output) => output.includes(text)),
    () => `${text} is printed, and not ${outputs().join('\n')}`,
  )
}
