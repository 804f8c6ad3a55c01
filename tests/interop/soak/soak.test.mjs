// Tabs hold one page for hours, while the server and the web client are upgraded. `make soak` runs it.
//
// SOAK_MINUTES (120)  how long the tabs hold the page
// SOAK_TABS (30)      tabs that hold it
// SOAK_PROGRAM        the server
// SOAK_NEXT_PROGRAM   the same server with another build of the web client

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'

import { PageDriver } from '../browser/page-driver.mjs'
import { DIRECT_ON_LOOPBACK, launch } from '../lib/chromium.mjs'
import { newFolder } from '../lib/folders.mjs'
import { children, isRunning, proportionalBytes } from './memory.mjs'
import { figuresOf, VISITOR_SECONDS_MAX, writePage } from './report.mjs'
import { UpgradedServer } from './upgraded-server.mjs'

const MINUTES = positive('SOAK_MINUTES', 120)
const TABS = Math.max(2, Math.round(positive('SOAK_TABS', 30)))
const RUN_MS = MINUTES * 60_000
const PAGE_BYTES = 4_000_000
/** Browser processes have this many tabs, each with a profile of its own. */
const TABS_PER_BROWSER = 10
const VISIT_EVERY_MS = 60_000
/** A visit that takes longer has failed. */
const VISIT_MS = 60_000
const SAMPLE_EVERY_MS = Math.min(15_000, Math.max(2_000, RUN_MS / 480))
const OPEN_MS = 120_000

test('tabs hold a page through upgrades of the server and of the web client', { timeout: RUN_MS + 1_800_000 }, async (t) => {
  const { SOAK_PROGRAM: program, SOAK_NEXT_PROGRAM: nextProgram } = process.env
  assert(program && nextProgram, 'cannot run the soak: SOAK_PROGRAM and SOAK_NEXT_PROGRAM are not set; `make soak` sets them')
  const folder = newFolder(t)
  const file = path.join(folder, 'soak.bin')
  await writeFile(file, randomBytes(PAGE_BYTES))
  const server = await UpgradedServer.start(folder, program)
  t.after(() => server.stop())
  const run = new Soak(server, file)
  t.after(() => run.close())
  await run.open()
  t.diagnostic(`${TABS} tabs hold ${run.link}`)
  // A diagnostic would appear at the end of the test, after hours.
  await run.play({ program, nextProgram }, (line) => console.log(line))

  const figures = figuresOf(run)
  for (const [name, value] of Object.entries(figures)) t.diagnostic(`${name}: ${value}`)
  const written = await writePage(run, figures)
  t.diagnostic(`written: ${written}`)
  const failed = run.visits.filter(({ problem }) => problem !== null)
  assert.deepEqual(failed, [], 'visitors did not get the page')
  assert.equal(run.upgrades.length, 3)
  assert(run.clients.size > 1, 'the new web client has the same files as the old one')
})

/** The tabs, the visitors, and all that was measured. Times are seconds since the tabs held the page. */
class Soak {
  tabs = TABS
  minutes = MINUTES
  pageBytes = PAGE_BYTES
  link = ''
  /** Memory, and tabs that show the whole page. */
  samples = []
  visits = []
  upgrades = []
  /** The scripts by which visitors and reloaded tabs knew the web client. */
  clients = new Set()
  /** Seconds that each reloaded tab needed until it held the page again. */
  reloads = []
  /** Errors on the consoles of the tabs, beside connections that an upgrade closed. */
  pageErrors = new Set()
  #server
  #file
  #browsers = []
  #visitors = null
  #people = []
  #startedAt = 0
  #isOver = false

  constructor(server, file) {
    this.#server = server
    this.#file = file
  }

  async open() {
    for (let at = 0; at < TABS; at += 1) {
      if (at % TABS_PER_BROWSER === 0) await this.#launch()
      const person = await this.#personIn(this.#browsers.at(-1).browser)
      this.#people.push(person)
      if (at === 0) this.link = await person.sharePage({ files: [this.#file] })
      else await person.goTo(this.link)
      await person.waitUntilComplete(OPEN_MS)
    }
    this.#visitors = await launch(DIRECT_ON_LOOPBACK)
  }

  async play({ program, nextProgram }, say) {
    this.#startedAt = Date.now()
    const watching = Promise.all([this.#sampleUntilOver(), this.#visitUntilOver(say)])
    watching.catch(() => (this.#isOver = true))
    try {
      // An upgrade of the client is one of the program that has it.
      for (const [share, what, next] of [
        [1 / 3, 'server', program],
        [1 / 2, 'web client', nextProgram],
        [2 / 3, 'server', nextProgram],
      ]) {
        await this.#sleepUntil(share * RUN_MS)
        if (this.#isOver) break
        const at = this.now()
        await this.#server.upgrade(next)
        this.upgrades.push({ at, what, seconds: this.now() - at })
        say(`${what} upgraded after ${at.toFixed(0)} s, in ${(this.now() - at).toFixed(1)} s`)
        if (what === 'web client') await this.#reloadHalf(say)
      }
      await this.#sleepUntil(RUN_MS)
    } finally {
      this.#isOver = true
      await watching
    }
    this.#server.assertRunning()
    for (const person of this.#people) await person.waitUntilComplete(VISIT_MS)
  }

  now() {
    return (Date.now() - this.#startedAt) / 1000
  }

  async close() {
    await Promise.all([...this.#browsers.map(({ browser }) => browser), this.#visitors].map((browser) => browser?.close()))
  }

  async #launch() {
    const before = children(process.pid)
    const browser = await launch(DIRECT_ON_LOOPBACK)
    const [pid] = children(process.pid).filter((pid) => !before.includes(pid))
    this.#browsers.push({ browser, pid })
  }

  async #personIn(browser) {
    const context = await browser.newContext()
    await context.grantPermissions(['microphone'], { origin: `http://localhost:${this.#server.port}` })
    return PageDriver.inContext(this.#server, context)
  }

  /** Some people reload their tab after the upgrade, one after another; the others go on with the client that they have. */
  async #reloadHalf(say) {
    const reloading = this.#people.filter((_, at) => at % 2 === 1)
    for (const person of reloading) {
      const at = this.now()
      await person.tab.reload()
      await person.waitUntilComplete(VISIT_MS)
      this.reloads.push(this.now() - at)
      this.clients.add(await clientOf(person))
      await pause(RUN_MS / 20 / reloading.length)
    }
    say(`${reloading.length} tabs were reloaded, the slowest in ${Math.max(...this.reloads).toFixed(1)} s`)
  }

  async #sampleUntilOver() {
    while (!this.#isOver) {
      const at = this.now()
      const states = await Promise.all(this.#people.map(stateOf))
      this.samples.push({
        at,
        serverBytes: this.#server.residentBytes(),
        tabBytes: this.#browsers.reduce((sum, { pid }) => sum + proportionalBytes(pid), 0) / TABS,
        whole: states.filter(({ isWhole }) => isWhole).length,
        holders: Math.max(...states.map(({ holders }) => holders)),
      })
      for (const { pid } of this.#browsers) assert(isRunning(pid), 'a browser has ended')
      for (const { pageErrors } of this.#people) for (const error of pageErrors.splice(0)) this.pageErrors.add(error)
      await this.#sleepUntil((at + SAMPLE_EVERY_MS / 1000) * 1000)
    }
  }

  async #visitUntilOver(say) {
    for (let n = 0; !this.#isOver; n += 1) {
      const visit = await this.#visit()
      this.visits.push(visit)
      if (visit.problem !== null) say(`the visitor after ${visit.at.toFixed(0)} s failed: ${visit.problem}`)
      await this.#sleepUntil((n + 1) * VISIT_EVERY_MS)
    }
  }

  /** A visitor without a profile opens the link, and saves the file. */
  async #visit() {
    const person = await this.#personIn(this.#visitors)
    const at = this.now()
    try {
      await person.goTo(this.link)
      await person.waitUntilComplete(VISIT_MS)
      const seconds = this.now() - at
      this.clients.add(await clientOf(person))
      const saved = await hashOf(await person.saveFile(path.basename(this.#file)))
      const isSame = saved === (await hashOf(this.#file))
      const isLate = seconds > VISITOR_SECONDS_MAX
      const late = isLate ? `the page came after ${seconds.toFixed(1)} s` : null
      return { at, seconds, problem: isSame ? late : 'the saved file differs' }
    } catch (error) {
      return { at, seconds: this.now() - at, problem: error.message.split('\n')[0] }
    } finally {
      await person.tab.context().close()
    }
  }

  /** Waits until this time after the start, or until the run is over. */
  async #sleepUntil(ms) {
    const left = () => this.#startedAt + ms - Date.now()
    while (!this.#isOver && left() > 0) await pause(Math.min(500, left()))
  }
}

/** Whether a tab shows the whole page, and how many tabs it believes to have it. */
function stateOf(person) {
  return person.tab
    .evaluate(() => ({
      isWhole: document.querySelector('.status-panel.held') !== null,
      holders: Number(/(\d+) people have this page/.exec(document.body.textContent)?.[1] ?? 0),
    }))
    .catch(() => ({ isWhole: false, holders: 0 })) // It reloads.
}

/** The scripts of the web client that a tab runs; their names change with their content. */
function clientOf(person) {
  return person.tab.evaluate(() => [...document.scripts].map(({ src }) => src).join(' '))
}

async function hashOf(file) {
  return createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
}

function positive(name, usual) {
  const value = Number(process.env[name] ?? usual)
  assert(Number.isFinite(value) && value > 0, `invalid value of ${name}: ${process.env[name]}`)
  return value
}
