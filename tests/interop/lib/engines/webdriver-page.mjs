// Contexts, tabs and locators over classic WebDriver, with the part of Playwright's API that the tests use.

import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

import { waitUntil } from '../deadlines.mjs'
import { newFolder } from '../folders.mjs'
import { INSTALL } from './find-elements.mjs'
import { pathOf } from './webdriver-session.mjs'

const DEFAULT_MS = 30_000
/** An element that stayed in its place this long is at rest. */
const REST_MS = 50
/** Errors of elements and frames that the page has replaced: the command is tried again. */
const TRANSIENT = new Set([
  'stale element reference',
  'no such element',
  'no such frame',
  'element not interactable',
  'element click intercepted',
])
/** Keys that have a code instead of a character (W3C WebDriver, 17.4.2). */
const KEYS = {
  Enter: '\uE007',
  Tab: '\uE004',
  Escape: '\uE00C',
  Backspace: '\uE003',
  ArrowLeft: '\uE012',
  ArrowUp: '\uE013',
  ArrowRight: '\uE014',
  ArrowDown: '\uE015',
  Home: '\uE011',
  End: '\uE010',
  Delete: '\uE017',
  Space: ' ',
  Shift: '\uE008',
  Control: '\uE009',
  Alt: '\uE00A',
}

/** A visitor: a session, with an empty profile and its tabs. */
export class WebDriverContext {
  timeout = DEFAULT_MS
  #session
  #options
  #pages = []
  #isClosed = false

  constructor(session, options) {
    this.#session = session
    this.#options = options
  }

  get version() {
    return this.#session.version
  }

  /** The errors so far, as an array that stays current. */
  get pageErrors() {
    const { errors } = this.#options
    return new Proxy([], {
      get: (_, key) => Reflect.get(errors(), key),
      ownKeys: () => Reflect.ownKeys(errors()),
      getOwnPropertyDescriptor: (_, key) => Reflect.getOwnPropertyDescriptor(errors(), key),
    })
  }

  browser() {
    return this.#options.browser
  }

  pages() {
    return this.#pages
  }

  /** The next download of any of its tabs. */
  nextDownload(options) {
    return this.#options.downloads.next(options)
  }

  cookies() {
    return this.#session.exclusively((session) => session.get('/cookie'))
  }

  setDefaultTimeout(ms) {
    this.timeout = ms
  }

  async newPage() {
    const handle = await this.#session.exclusively(async (session) =>
      this.#pages.length === 0 ? session.get('/window') : (await session.post('/window/new', { type: 'tab' })).handle,
    )
    const page = new WebDriverPage(this, this.#session, handle)
    this.#pages.push(page)
    return page
  }

  /** Ends the browser, as a person who closes its window. */
  async close() {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#session.exclusively((session) => session.delete('')).catch(() => {})
    await this.#options.end()
  }

  /** One of several tabs was closed. The browser ends with its last tab. */
  async forget(page) {
    this.#pages = this.#pages.filter((each) => each !== page)
    if (this.#pages.length === 0) await this.close()
  }
}

/** The common base of a page, a frame and a locator: each makes locators. */
class Finder {
  /**
   * A locator with one more step.
   * @returns {any}
   */
  narrow(_step) {
    throw new Error('a subclass narrows')
  }

  locator(css, { hasText = null } = {}) {
    const found = this.narrow({ by: 'css', value: css })
    return hasText === null ? found : found.narrow({ by: 'has-text', wanted: wantedText(hasText) })
  }

  getByRole(role, { name = null, exact = false } = {}) {
    return this.narrow({ by: 'role', value: role, wanted: name === null ? null : wantedText(name, exact) })
  }

  getByText(words, { exact = false } = {}) {
    return this.narrow({ by: 'text', wanted: wantedText(words, exact) })
  }

  getByLabel(words, { exact = false } = {}) {
    return this.narrow({ by: 'label', wanted: wantedText(words, exact) })
  }

  getByAltText(words, { exact = false } = {}) {
    return this.narrow({ by: 'alt', wanted: wantedText(words, exact) })
  }
}

function wantedText(words, exact = false) {
  return words instanceof RegExp ? { pattern: words.source, flags: words.flags.replace('g', '') } : { words, exact }
}

/** A tab. */
export class WebDriverPage extends Finder {
  keyboard
  mouse
  #mouseAt = [0, 0]
  #context
  #session
  #handle
  #isClosed = false

  constructor(context, session, handle) {
    super()
    this.#context = context
    this.#session = session
    this.#handle = handle
    this.keyboard = { press: (key) => this.#press(key), type: (words) => this.#type(words) }
    this.mouse = {
      move: (x, y, { steps = 1 } = {}) => this.#moveMouse(x, y, steps),
      down: () => this.#point([{ type: 'pointerDown', button: 0 }]),
      up: () => this.#point([{ type: 'pointerUp', button: 0 }]),
    }
  }

  context() {
    return this.#context
  }

  narrow(step) {
    return new WebDriverLocator(this, [], [step])
  }

  frameLocator(css) {
    return new WebDriverFrame(this, [[{ by: 'css', value: css }]])
  }

  /** Runs commands in a frame of this tab, which is found by the locators of its frames. */
  inFrame(frames, commands) {
    return this.#session.exclusively(async (session) => {
      await session.post('/window', { handle: this.#handle })
      await session.post('/frame', { id: null })
      for (const steps of frames) {
        const [frame] = await findAll(session, steps)
        if (frame === undefined) throw Object.assign(new Error(`cannot find the frame ${describe(steps)}`), { code: 'no such frame' })
        await session.post('/frame', { id: frame })
      }
      return commands(session)
    })
  }

  goto(url) {
    return this.inFrame([], (session) => session.post('/url', { url }))
  }

  reload() {
    return this.inFrame([], (session) => session.post('/refresh'))
  }

  goBack() {
    return this.inFrame([], (session) => session.post('/back'))
  }

  goForward() {
    return this.inFrame([], (session) => session.post('/forward'))
  }

  /** The address, which is a promise here. */
  url() {
    return this.inFrame([], (session) => session.get('/url'))
  }

  title() {
    return this.inFrame([], (session) => session.get('/title'))
  }

  evaluate(run, argument) {
    return this.inFrame([], (session) => call(session, run, [argument]))
  }

  /** Waits for a download, the only event that classic WebDriver has: as a file. */
  waitForEvent(event, options) {
    if (event !== 'download') throw new Error(`cannot wait for the event ${event}: classic WebDriver has no events`)
    return this.#context.nextDownload({ timeout: this.#context.timeout, ...options })
  }

  async screenshot(/** @type {{ path?: string }} */ { path: file } = {}) {
    const picture = Buffer.from(await this.inFrame([], (session) => session.get('/screenshot')), 'base64')
    if (file !== undefined) writeFileSync(file, picture)
    return picture
  }

  async close() {
    if (this.#isClosed) return
    this.#isClosed = true
    if (this.#context.pages().length > 1) {
      await this.#session.exclusively(async (session) => {
        await session.post('/window', { handle: this.#handle })
        await session.delete('/window')
      })
    }
    await this.#context.forget(this)
  }

  #press(key) {
    const keys = key.split('+').map((each) => KEYS[each] ?? each)
    const down = keys.map((value) => ({ type: 'keyDown', value }))
    const up = keys.toReversed().map((value) => ({ type: 'keyUp', value }))
    return this.#act([...down, ...up])
  }

  #type(words) {
    return this.#act(
      [...words].flatMap((value) => [
        { type: 'keyDown', value },
        { type: 'keyUp', value },
      ]),
    )
  }

  async #moveMouse(x, y, steps) {
    const [fromX, fromY] = this.#mouseAt
    const moves = Array.from({ length: steps }, (_, index) => {
      const part = (index + 1) / steps
      const at = { x: Math.round(fromX + (x - fromX) * part), y: Math.round(fromY + (y - fromY) * part) }
      return { type: 'pointerMove', duration: 0, origin: 'viewport', ...at }
    })
    await this.#point(moves)
    this.#mouseAt = [x, y]
  }

  #point(actions) {
    const pointer = { type: 'pointer', id: 'mouse', parameters: { pointerType: 'mouse' }, actions }
    return this.inFrame([], (session) => session.post('/actions', { actions: [pointer] }))
  }

  #act(actions) {
    return this.inFrame([], (session) => session.post('/actions', { actions: [{ type: 'key', id: 'keyboard', actions }] }))
  }
}

/** A frame of a tab, in which locators search. */
class WebDriverFrame extends Finder {
  #page
  #frames

  constructor(page, frames) {
    super()
    this.#page = page
    this.#frames = frames
  }

  narrow(step) {
    return new WebDriverLocator(this.#page, this.#frames, [step])
  }

  frameLocator(css) {
    return new WebDriverFrame(this.#page, [...this.#frames, [{ by: 'css', value: css }]])
  }
}

/** A search for elements, which is made anew for each command. */
class WebDriverLocator extends Finder {
  #page
  #frames
  #steps

  constructor(page, frames, steps) {
    super()
    this.#page = page
    this.#frames = frames
    this.#steps = steps
  }

  narrow(step) {
    return new WebDriverLocator(this.#page, this.#frames, [...this.#steps, step])
  }

  first() {
    return this.nth(0)
  }

  nth(value) {
    return this.narrow({ by: 'nth', value })
  }

  filter({ hasText }) {
    return this.narrow({ by: 'has-text', wanted: wantedText(hasText) })
  }

  count() {
    return this.#page.inFrame(this.#frames, async (session) => (await findAll(session, this.#steps)).length)
  }

  async all() {
    return Array.from({ length: await this.count() }, (_, index) => this.nth(index))
  }

  async isVisible() {
    return (await this.narrow({ by: 'visible' }).count()) > 0
  }

  /** Waits for a state of the first element. */
  async waitFor({ state = 'visible', timeout = this.#page.context().timeout } = {}) {
    const searched = state === 'attached' || state === 'detached' ? this.first() : this.first().narrow({ by: 'visible' })
    const isWanted = state === 'attached' || state === 'visible'
    const reached = async () => {
      const found = await searched.count().catch(ignoreTransient)
      return found > 0 === isWanted
    }
    await waitUntil(reached, `${describe(this.#steps)} is ${state}`, timeout)
  }

  click() {
    return this.#withElement(
      async (session, element) => {
        if (!(await comesToRest(session, element)))
          throw Object.assign(new Error('it moves, or something covers it'), { code: 'element click intercepted' })
        await session.post(`${pathOf(element)}/click`)
      },
      { isVisible: true },
    )
  }

  async check() {
    if (!(await this.isChecked())) await this.click()
  }

  async uncheck() {
    if (await this.isChecked()) await this.click()
  }

  isChecked() {
    return this.evaluate((it) => it.checked ?? it.getAttribute('aria-checked') === 'true')
  }

  /** Replaces the value of a field as typing does, with one event. */
  fill(words) {
    return this.evaluate((it, words) => {
      it.focus()
      const { set } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(it), 'value')
      set.call(it, words)
      it.dispatchEvent(new InputEvent('input', { bubbles: true, composed: true, data: words, inputType: 'insertText' }))
      it.dispatchEvent(new Event('change', { bubbles: true }))
    }, words)
  }

  focus() {
    return this.evaluate((it) => it.focus())
  }

  async press(key) {
    await this.focus()
    await this.#page.keyboard.press(key)
  }

  boundingBox() {
    return this.evaluate((it) => {
      const { x, y, width, height } = it.getBoundingClientRect()
      return { x, y, width, height }
    })
  }

  /** Chooses files: paths, or `{ name, buffer }`. */
  setInputFiles(files) {
    const list = [files].flat().map(onDisk)
    return this.#withElement((session, element) => session.post(`${pathOf(element)}/value`, { text: list.join('\n') }))
  }

  textContent() {
    return this.evaluate((it) => it.textContent)
  }

  inputValue() {
    return this.evaluate((it) => it.value)
  }

  getAttribute(name) {
    return this.evaluate((it, name) => it.getAttribute(name), name)
  }

  allTextContents() {
    return this.#page.inFrame(this.#frames, async (session) => {
      const found = await findAll(session, this.#steps)
      return call(session, (...them) => them.map((it) => it.textContent), found)
    })
  }

  evaluate(run, argument) {
    return this.#withElement((session, element) => call(session, run, [element, argument]))
  }

  /** Runs commands with the only element, once there is one. */
  async #withElement(commands, { isVisible = false } = {}) {
    const steps = isVisible ? [...this.#steps, { by: 'visible' }] : this.#steps
    let why = 'it is not there'
    const attempt = () =>
      this.#page
        .inFrame(this.#frames, async (session) => {
          const found = await findAll(session, steps)
          if (found.length > 1) throw new Error(`${describe(steps)} names ${found.length} elements instead of one`)
          return found.length === 0 ? null : { value: await commands(session, found[0]) }
        })
        .catch((error) => {
          why = error.message
          return ignoreTransient(error)
        })
    const done = await waitUntil(attempt, () => `${describe(steps)} can be used: ${why}`, this.#page.context().timeout)
    return done.value
  }
}

/** Scrolls to an element; whether a click would hit it, because it rests and nothing covers it. */
async function comesToRest(session, element) {
  const before = await call(session, centreOf, [element, { scrolls: true }])
  // Not in the page: no timer runs in a document that may not have scripts.
  await pause(REST_MS)
  const { x, y, isHit } = await call(session, centreOf, [element, { scrolls: false }])
  return isHit && x === before.x && y === before.y
}

/** Where the centre of an element is, and whether the element is what is there. Runs in the page. */
function centreOf(element, { scrolls }) {
  if (scrolls) element.scrollIntoView({ block: 'center', inline: 'nearest', behavior: 'instant' })
  const box = element.getBoundingClientRect()
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]
  const hit = document.elementFromPoint(x, y)
  const isHit = hit !== null && (element.contains(hit) || hit.contains(element) || hit.closest('label')?.contains(element) === true)
  return { x, y, isHit }
}

function ignoreTransient(error) {
  if (!TRANSIENT.has(error.code)) throw error
  return null
}

/** The elements that a locator finds in the current frame, which gets the finder when it does not have it yet. */
async function findAll(session, steps) {
  const search = () =>
    session.execute('return window.__watchfireTest === undefined ? null : window.__watchfireTest.find(arguments[0])', steps)
  const found = await search()
  if (found !== null) return found
  await session.execute(INSTALL)
  return (await search()) ?? []
}

/** Calls a function in the page. Elements among the arguments are passed as references. */
function call(session, run, args) {
  const passed = args.map((each) => (each === undefined ? null : each))
  return session.execute(`return (${run})(...arguments)`, ...passed)
}

/** The path of a file that the browser reads. */
function onDisk(file) {
  if (typeof file === 'string') return file
  const saved = path.join(newFolder(), file.name)
  writeFileSync(saved, file.buffer)
  return saved
}

function describe(steps) {
  return steps
    .map(({ by, value, wanted }) =>
      [by, value, wanted && (wanted.pattern ?? wanted.words)].filter((each) => each !== undefined && each !== null).join(' '),
    )
    .join(' > ')
}
