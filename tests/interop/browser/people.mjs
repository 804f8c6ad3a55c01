// People: each with a browser of their own, doing and seeing what people do and see.

import assert from 'node:assert/strict'
import { after } from 'node:test'

import { BY_RELAY_ONLY, hearComplaints, launch } from '../lib/chromium.mjs'
import { startWatchfire } from '../lib/server.mjs'
import { until } from '../lib/waiting.mjs'

/** How long a person may wait for what crosses browsers. Two cores may have very much else to do; nothing waits in vain. */
export const PATIENCE_MS = 60_000

/** A server that is stopped, and held to having ended well, when the test ends. */
export async function serve(t, options = {}) {
  const settings = { 'server.drain_period': '100ms', ...options.settings }
  const server = await startWatchfire({ ...options, settings })
  t.after(() => (server.isRunning ? server.stop() : undefined))
  return server
}

/** Where people find the server. `localhost` is a secure context to a browser, as HTTPS is. */
export function addressOf(server) {
  return `http://localhost:${server.port}`
}

/** Browsers that nobody uses at the moment. A process costs a second; an empty profile in one costs nothing. */
const idle = []
after(() => Promise.all(idle.map((browser) => browser.close())))

/**
 * Somebody comes, with a browser process to themselves and an empty profile, and is gone when the
 * test ends. Their browser makes no direct connections: see `lines.mjs` for one that does.
 */
export async function arrive(t, server, options = {}) {
  const browser = idle.pop() ?? (await launch(BY_RELAY_ONLY))
  const context = await browser.newContext(options)
  t.after(async () => {
    if (!browser.isConnected()) return
    await context.close()
    idle.push(browser)
  })
  return Person.inContext(server, context)
}

/** A person and the tab they look at. */
export class Person {
  /** What the browser complained about, see `hearComplaints`. */
  complaints = []
  #context
  #address

  constructor(context, address) {
    this.#context = context
    this.#address = address
  }

  static async inContext(server, context) {
    const person = new Person(context, addressOf(server))
    person.complaints = await hearComplaints(context)
    context.setDefaultTimeout(PATIENCE_MS)
    person.tab = await context.newPage()
    return person
  }

  /** The same person in another tab of the same browser. */
  async withAnotherTab() {
    const person = new Person(this.#context, this.#address)
    person.complaints = this.complaints
    person.tab = await this.#context.newPage()
    return person
  }

  /** Goes to an address of the server, or to a whole link. */
  async goTo(place) {
    await this.tab.goto(new URL(place, this.#address).href)
  }

  /** Writes on the home page, puts files beside it, and lights it; the answer is the link. */
  async light({ text = '', as = 'Markdown', files = [] }) {
    await this.goTo('/')
    await this.compose({ text, as, files })
    await this.tab.getByRole('button', { name: 'Light it' }).click()
    return this.linkLit()
  }

  async compose({ text = '', as = 'Markdown', files = [] }) {
    if (as !== 'Markdown') await this.tab.getByText(as, { exact: true }).click()
    if (text !== '') await this.tab.getByRole('textbox', { name: 'What the page says' }).fill(text)
    if (files.length > 0) await this.tab.locator('input[type=file]').setInputFiles(files)
  }

  /** The link of the page that was just lit, as it is offered for copying. */
  async linkLit() {
    const link = await this.tab.getByRole('textbox', { name: 'Link to this page' }).inputValue()
    assert.equal(link, this.tab.url(), 'the link offered is the address of the page')
    return link
  }

  /** Waits until these words stand somewhere on the page. */
  async sees(words, ms = PATIENCE_MS) {
    await this.tab.getByText(words).first().waitFor({ timeout: ms })
  }

  /** Waits until these words stand nowhere on the page. */
  async seesNoMore(words, ms = PATIENCE_MS) {
    await this.tab.getByText(words).first().waitFor({ state: 'hidden', timeout: ms })
  }

  /** Waits until how the fire stands says this. */
  async isTold(words, ms = PATIENCE_MS) {
    await this.#standing.getByText(words).first().waitFor({ timeout: ms })
  }

  get #standing() {
    return this.tab.getByRole('region', { name: 'Who keeps this page' }).getByRole('status')
  }

  /** Waits until all of the page is here. */
  async holdsIt(ms = PATIENCE_MS) {
    await this.tab.getByRole('textbox', { name: 'Link to this page' }).waitFor({ timeout: ms })
  }

  /** Waits until a picture with that description is drawn; answers its width and height. */
  async seesPicture(description) {
    const picture = this.tab.getByRole('img', { name: description }).first()
    return until(
      () => picture.evaluate((img) => (img.complete && img.naturalWidth > 0 ? [img.naturalWidth, img.naturalHeight] : null)),
      `the picture ${description} is drawn`,
      PATIENCE_MS,
    )
  }

  /** Saves the file of that name to disk; answers where it is. */
  async saves(name) {
    const saved = this.tab.waitForEvent('download')
    await this.tab.getByRole('button', { name: `Save ${name}` }).click()
    const download = await saved
    assert.equal(download.suggestedFilename(), name)
    return download.path()
  }

  /** Closes the tab, as people do: without a word. */
  leave() {
    return this.tab.close()
  }

  /** The browser ends at once, with all its tabs. */
  vanish() {
    return this.#context.browser().close()
  }

  /** Nothing of ours gave the browser a reason to complain. */
  hasNoComplaints() {
    assert.deepEqual(this.complaints, [])
  }
}

/** The CID in a link to a page. */
export function cidOf(link) {
  return new URL(link).pathname.replace('/p/', '')
}
