// A tab that can be in the background. Playwright tells the pages that it drives that they are visible, always.

import { waitUntil } from '../lib/deadlines.mjs'
import { WAIT_MS } from './page-driver.mjs'

export class BackgroundTab {
  #browser
  #targetId
  #sessionId
  #calls = 0
  #waiting = new Map()

  /** Opens a link in a tab of the browser's own profile, in the foreground. */
  static async open(t, browser, link) {
    const tab = new BackgroundTab()
    tab.#browser = await browser.newBrowserCDPSession()
    tab.#targetId = await tab.#newTarget(link)
    const { sessionId } = await tab.#browser.send('Target.attachToTarget', { targetId: tab.#targetId, flatten: false })
    tab.#sessionId = sessionId
    tab.#browser.on('Target.receivedMessageFromTarget', (event) => {
      const { id, result } = JSON.parse(event.message)
      if (event.sessionId === sessionId) tab.#waiting.get(id)?.(result)
    })
    t.after(() => browser.isConnected() && tab.#browser.send('Target.closeTarget', { targetId: tab.#targetId }))
    return tab
  }

  /** Shows another tab of the same window. */
  async hide() {
    await this.#browser.send('Target.activateTarget', { targetId: await this.#newTarget('about:blank') })
    await waitUntil(async () => (await this.evaluate('document.visibilityState')) === 'hidden', 'the tab is hidden', WAIT_MS)
  }

  /** Stops the hidden tab, as a browser does to save power. */
  freeze() {
    return this.#send('Page.setWebLifecycleState', { state: 'frozen' })
  }

  resume() {
    return this.#send('Page.setWebLifecycleState', { state: 'active' })
  }

  /** The value of an expression in the page, or of its promise. */
  async evaluate(expression) {
    const { result } = await this.#send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true })
    return result.value
  }

  /** Clicks the button with this text. */
  press(words) {
    return this.evaluate(`[...document.querySelectorAll('button')].find((each) => each.textContent === ${JSON.stringify(words)}).click()`)
  }

  /** Waits until the page shows this text; returns all of its text. */
  waitForText(words) {
    return waitUntil(
      async () => {
        const text = await this.evaluate('document.body?.innerText ?? ""')
        return text.includes(words) ? text : null
      },
      `the tab shows "${words}"`,
      WAIT_MS,
    )
  }

  async #newTarget(url) {
    const { targetId } = await this.#browser.send('Target.createTarget', { url })
    return targetId
  }

  #send(method, params) {
    const id = ++this.#calls
    const answered = new Promise((resolve) => this.#waiting.set(id, resolve))
    void this.#browser.send('Target.sendMessageToTarget', { sessionId: this.#sessionId, message: JSON.stringify({ id, method, params }) })
    return answered
  }
}
