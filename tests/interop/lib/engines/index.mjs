// The browser engines that the tests drive. Every engine has the same contract:
//
//   name, title        'firefox', 'Firefox'
//   canConnectDirectly whether its tabs have WebRTC or WebTransport; without them, the relay carries all blocks
//   lacks              what its protocol cannot do, and the reason: tests that need it are skipped
//   opens              what scripts in the sandbox can open in spite of its policy: `datagrams`, by WebRTC, or `connections`,
//                      without a request. The page must say that this browser does not block every connection
//   whyMissing()       the reason why it cannot start on this machine, or null
//   launch({ direct, ownProcesses })
//                      a browser; `direct` allows connections over loopback, which browsers exclude by default. Without it, the
//                      browser makes no direct connection, as behind the strictest firewall. With `ownProcesses`, each site
//                      surely has a process of its own, but the tests may not reach into the frames of a site
//   prepare(context, { direct })
//                      makes a context ready for the tests, and returns the list of the errors that our pages cause
//
// A browser has `newContext(options)`, `isConnected()`, `close()` and `version()`; WebKit knows its version only while it has
// a context. Contexts, tabs and locators are those of Playwright: by
// itself for Chromium over CDP and for Firefox over WebDriver BiDi, and by `webdriver-page.mjs`, which has the part of it
// that the tests use, for WebKit over classic WebDriver.

import { chromium } from './chromium.mjs'
import { firefox } from './firefox.mjs'
import { webkit } from './webkit.mjs'

export const ENGINES = { chromium, firefox, webkit }

/** The engine of that name. */
export function engineNamed(name) {
  const engine = ENGINES[name]
  if (engine === undefined)
    throw new Error(`cannot start the browser engine ${name}: it is unknown; use ${Object.keys(ENGINES).join(', ')}`)
  return engine
}

/** The engine of the tests that do not name one: `ENGINE`, or Chromium. */
export const engineOfTests = engineNamed(process.env.ENGINE ?? 'chromium')

/**
 * The option `skip` of a test that needs abilities of an engine: the reason why it is skipped, or false.
 * @param {...string} needed of `lacks`
 */
export function skipWithout(...needed) {
  const { title, lacks } = engineOfTests
  const missing = needed.find((each) => each in lacks)
  return missing === undefined ? false : `${title}: ${lacks[missing]}`
}
