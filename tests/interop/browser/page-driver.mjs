// Drives the web app as a person does, each visitor in a browser of their own.

import assert from 'node:assert/strict'
import { after } from 'node:test'

import { ENGINES, engineOfTests } from '../lib/engines/index.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { waitUntil } from '../lib/deadlines.mjs'

/** Longest wait for anything that crosses browsers, on a machine that may be very busy. */
export const WAIT_MS = 60_000

/** The windows in which views are looked at: both shapes and both themes, since no layout depends on a theme. */
export const WINDOWS = [
  { shape: 'wide', viewport: { width: 1280, height: 800 }, colorScheme: 'light' },
  { shape: 'narrow', viewport: { width: 360, height: 740 }, colorScheme: 'dark' },
]

/** Starts a server; when the test ends, stops it and asserts a clean exit. */
export async function startServer(t, options = {}) {
  const settings = { 'server.drain_period': '100ms', ...options.settings }
  const server = await startWatchfire({ ...options, settings })
  t.after(() => (server.isRunning ? server.stop() : undefined))
  return server
}

export const SITE = 'iframe[title="The site"]'

/** The document of the site that a page shows. */
export const siteOf = (tab) => tab.frameLocator(SITE).frameLocator('iframe').frameLocator('iframe')

/** The address of a server for browsers. `localhost` is a secure context, as HTTPS is. */
export function addressOf(server) {
  return `http://localhost:${server.port}`
}

/** Browsers that are not in use, by engine. Starting a process takes a second; an empty profile in one costs nothing. */
const idle = new Map(Object.values(ENGINES).map((engine) => [engine, []]))
after(() => Promise.all([...idle.values()].flat().map((browser) => browser.close())))

/**
 * Opens a browser with a process and an empty profile of its own; its pages are closed when the test
 * ends. It makes no direct connections: see `direct-connections.mjs` for one that does.
 * The options are the engine, and those of Playwright for the context.
 */
export async function newVisitor(t, server, /** @type {any} */ { engine = engineOfTests, ...options } = {}) {
  const unused = idle.get(engine)
  const browser = unused.pop() ?? (await engine.launch())
  const context = await browser.newContext(options)
  t.after(async () => {
    if (!browser.isConnected()) return
    await context.close()
    unused.push(browser)
  })
  return PageDriver.inContext(server, context, { engine })
}

/** Opens `count` visitors, one after the other. */
export async function newVisitors(t, server, count) {
  const visitors = []
  while (visitors.length < count) visitors.push(await newVisitor(t, server))
  return visitors
}

/** A visitor and the tab that they look at. */
export class PageDriver {
  /** Errors of the page, see `collectPageErrors`. */
  pageErrors = []
  tab = null
  engine
  #context
  #address

  constructor(context, { address, engine }) {
    this.#context = context
    this.#address = address
    this.engine = engine
  }

  /** `address` is where the visitor opens the server, such as a proxy in front; `direct` is as in `launch` of the engine. */
  static async inContext(server, context, { address = addressOf(server), engine = engineOfTests, direct = false } = {}) {
    const person = new PageDriver(context, { address, engine })
    person.pageErrors = await engine.prepare(context, { direct })
    context.setDefaultTimeout(WAIT_MS)
    person.tab = await context.newPage()
    return person
  }

  /** The same visitor in another tab of the same browser. */
  async openAnotherTab() {
    const person = new PageDriver(this.#context, { address: this.#address, engine: this.engine })
    person.pageErrors = this.pageErrors
    person.tab = await this.#context.newPage()
    return person
  }

  /** Opens a path of the server, or a whole link. */
  async goTo(place) {
    await this.tab.goto(new URL(place, this.#address).href)
  }

  /** Writes on the home page, adds files, and shares the page; returns the link. */
  async sharePage({ text = '', as = 'Markdown', files = [] }) {
    await this.goTo('/')
    await this.compose({ text, as, files })
    await this.tab.getByRole('button', { name: 'Light this page' }).click()
    return this.sharedLink()
  }

  /** Shares a page with the switch *Private* on; returns the link, which contains the key. */
  async sharePrivately(draft) {
    await this.goTo('/')
    await this.compose(draft)
    await this.tab.getByRole('switch', { name: 'Private' }).check()
    await this.waitForText('Only people with the whole link can read it')
    await this.tab.getByRole('button', { name: 'Light this page' }).click()
    const link = await this.sharedLink()
    assert.match(link, /#key=[\w-]{43}(&|$)/)
    return link
  }

  async compose({ text = '', as = 'Markdown', files = [] }) {
    if (as !== 'Markdown') await this.tab.getByText(as, { exact: true }).click()
    if (text !== '') await this.tab.getByRole('textbox', { name: 'Text of the page' }).fill(text)
    if (files.length > 0) await this.tab.locator('input[type=file]').setInputFiles(files)
  }

  /** The link of the page that was just shared, as offered for copying. */
  async sharedLink() {
    const link = await this.tab.getByRole('textbox', { name: 'Link to this page' }).inputValue()
    const [page] = link.split(/[#&]at=/)
    assert.equal(page, await this.tab.url(), 'the link offered is the address of the page, and the other servers of the page')
    return link
  }

  /** Waits until this text is visible on the page. */
  async waitForText(words, ms = WAIT_MS) {
    await this.tab.getByText(words).first().waitFor({ timeout: ms })
  }

  /** Waits until this text is not visible anywhere on the page. */
  async waitForTextGone(words, ms = WAIT_MS) {
    await this.tab.getByText(words).first().waitFor({ state: 'hidden', timeout: ms })
  }

  /** Opens the details of the page's status, unless they are open. */
  async openDetails(ms = WAIT_MS) {
    const details = this.tab.getByRole('button', { name: 'Details', exact: true })
    if ((await details.getAttribute('aria-expanded', { timeout: ms })) === 'false') await details.click({ timeout: ms })
  }

  /** Waits until the status of the page, with its details, contains this text. */
  async waitForStatus(words, ms = WAIT_MS) {
    await this.openDetails(ms)
    await this.#status.getByText(words).first().waitFor({ timeout: ms })
  }

  get #status() {
    return this.tab.getByRole('region', { name: 'Who has this page' }).getByRole('status')
  }

  /** Waits until the whole page has arrived. */
  async waitUntilComplete(ms = WAIT_MS) {
    await this.tab.locator('.status-panel.held').waitFor({ timeout: ms })
  }

  /** Waits until a picture with that description is displayed; returns its width and height. */
  async waitForPicture(description) {
    const picture = this.tab.getByRole('img', { name: description }).first()
    return waitUntil(
      () => picture.evaluate((img) => (img.complete && img.naturalWidth > 0 ? [img.naturalWidth, img.naturalHeight] : null)),
      `the picture ${description} is drawn`,
      WAIT_MS,
    )
  }

  /** The name of the control that has the focus. */
  focused() {
    return this.tab.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent)
  }

  /** Presses Tab until the control of that name has the focus. */
  async tabTo(name) {
    for (let n = 0; n < 40; n += 1) {
      await this.tab.keyboard.press('Tab')
      if ((await this.focused()).includes(name)) return
    }
    assert.fail(`the keyboard does not reach ${name}`)
  }

  /** Saves the file of that name to disk; returns its path. */
  async saveFile(name) {
    const saved = this.tab.waitForEvent('download')
    await this.tab.getByRole('button', { name: `Save ${name}` }).click()
    const download = await saved
    assert.equal(download.suggestedFilename(), name)
    return download.path()
  }

  /** Closes the tab. */
  leave() {
    return this.tab.close()
  }

  /** Closes the browser with all its tabs. */
  killBrowser() {
    return this.#context.browser().close()
  }

  /** Asserts that our own pages caused no error in the browser. */
  assertNoPageErrors() {
    assert.deepEqual(this.pageErrors, [])
  }
}

/** The CID in a link to a page. */
export function cidOf(link) {
  return new URL(link).pathname.replace('/p/', '')
}
