// Firefox as released, over WebDriver BiDi. Playwright's own builds of Firefox are not needed.

import { existsSync } from 'node:fs'

// Later versions of Playwright need commands that Debian's Firefox does not have, such as emulation.setMediaFeaturesOverride.
import { firefox as playwright } from 'playwright-firefox'

import { collectPageErrors, removeWebTransport } from '../chromium.mjs'
import { DownloadFolder } from './downloads.mjs'

const EXECUTABLE = process.env.FIREFOX ?? '/usr/bin/firefox-esr'

/** Preferences that stop all background network traffic. */
const QUIET = {
  'network.captive-portal-service.enabled': false,
  'network.connectivity-service.enabled': false,
  'network.dns.disablePrefetch': true,
  'network.trr.mode': 5,
  'app.update.enabled': false,
  'dom.push.enabled': false,
  'extensions.systemAddon.update.enabled': false,
  'services.settings.server': 'data:,',
  'browser.safebrowsing.malware.enabled': false,
  'browser.safebrowsing.phishing.enabled': false,
}

/** One process for all frames: the input of WebDriver does not reach a frame of a site in another process. */
const ONE_PROCESS = { 'fission.autostart': false }

const DIRECT_ON_LOOPBACK = {
  'media.peerconnection.ice.loopback': true,
  'media.peerconnection.ice.obfuscate_host_addresses': false,
}

/** Only candidates of TURN servers, of which there is none. */
const BY_RELAY_ONLY = { 'media.peerconnection.ice.relay_only': true }

/** Firefox writes this on its own when a connection fails, as each one must for a browser by relay only. */
const NO_DIRECT_CONNECTION = 'WebRTC: ICE failed'
/** And this, without an address, when a player that seeks drops an answer of the service worker that it has begun to read. */
const DROPPED_ANSWER = 'Failed to load ‘’. A ServiceWorker intercepted the request'

/** The folder of each browser. Playwright reports no download of a Blob, because Firefox gives it no identifier. */
const downloads = new WeakMap()

/**
 * Notes the downloads that begin and fail. They are read from the messages of WebDriver BiDi, because Playwright ignores the end
 * of a download whose frame is gone, and a failed download of Firefox leaves its files.
 */
function noteDownloads(browser, folder) {
  const transport = browser._connection.toImpl(browser)._connection._transport
  const receive = transport.onmessage
  const names = new Map()
  transport.onmessage = (message) => {
    const { method, params } = message
    const id = params?.download ?? params?.navigation
    if (method === 'browsingContext.downloadWillBegin') {
      names.set(id, params.suggestedFilename)
      folder.noteBegin(params.suggestedFilename)
    }
    if (method === 'browsingContext.downloadEnd' && params.status === 'canceled' && names.has(id)) folder.noteFailure(names.get(id))
    receive(message)
  }
}

export const firefox = {
  name: 'firefox',
  title: 'Firefox',
  canConnectDirectly: true,
  lacks: {
    devtools: 'the test uses the DevTools protocol of Chromium',
    netlog: 'the test reads the network log of Chromium',
    credentialless: 'it has no frames without stored data: a site finds what it stored until the person clears the data of websites',
    media: 'Playwright sets colours and motion with a command that this Firefox does not have',
  },
  opens: ['datagrams'],
  whyMissing: () => (existsSync(EXECUTABLE) ? null : `${EXECUTABLE} does not exist; \`make engine-tools\` installs it`),
  async launch({ direct = false, ownProcesses = false } = {}) {
    const folder = new DownloadFolder()
    const browser = await playwright.launch({
      // The channel selects WebDriver BiDi.
      channel: 'moz-firefox',
      executablePath: EXECUTABLE,
      headless: true,
      downloadsPath: folder.path,
      firefoxUserPrefs: { ...QUIET, ...(ownProcesses ? {} : ONE_PROCESS), ...(direct ? DIRECT_ON_LOOPBACK : BY_RELAY_ONLY) },
    })
    downloads.set(browser, folder)
    noteDownloads(browser, folder)
    return browser
  },
  async prepare(context, { direct = false } = {}) {
    if (!direct) await context.addInitScript(removeWebTransport)
    const folder = downloads.get(context.browser())
    context.on('page', (page) => {
      const waitForEvent = page.waitForEvent.bind(page)
      page.waitForEvent = (event, options) => (event === 'download' ? folder.next(options) : waitForEvent(event, options))
      // Playwright waits for the load of a document, which a step within one does not have.
      page.goBack = () => page.evaluate(() => history.back())
      page.goForward = () => page.evaluate(() => history.forward())
    })
    const isExpected = (words) => words.startsWith(DROPPED_ANSWER) || (!direct && words.startsWith(NO_DIRECT_CONNECTION))
    return collectPageErrors(context, { isExpected })
  },
}
