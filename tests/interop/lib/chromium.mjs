// Starts real browsers. Each visitor of a test has a browser process and a profile of their own.

import { chromium } from 'playwright-core'

export const EXECUTABLE = process.env.CHROMIUM ?? '/usr/bin/chromium'

/**
 * The features that Playwright disables, except for storage partitioning. Without partitioning no
 * cross-origin frame can have a worker, unlike in every released browser.
 */
const OFF = [
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsUpgrades',
  'HttpsFirstBalancedModeAutoEnable',
  'LensOverlay',
  'MediaRouter',
  'PaintHolding',
  'AvoidCorsURLLoaderRestartOnRedirect',
  'OptimizationHints',
  'NetworkTimeServiceQuerying',
  'AimEnabled',
  'PreconnectToSearch',
  // The list below the address bar, which nobody sees here: two documents with processes, in each window. Without them a window
  // costs 0.25 CPU seconds instead of 0.85.
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
]

/** Flags that stop all background network traffic. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** The flags of a browser. Chromium uses the last list of features, so all lists become one. */
function withFlags(flags) {
  const list = '--disable-features='
  const off = flags.filter((flag) => flag.startsWith(list)).map((flag) => flag.slice(list.length))
  return [...FLAGS, ...flags.filter((flag) => !flag.startsWith(list)), list + [...OFF, ...off].join(',')]
}

/** Runs in each document of a browser without direct connections, which has no preference that disables WebTransport. */
export function removeWebTransport() {
  delete globalThis.WebTransport
}

/** Flags for a browser whose WebRTC cannot connect, as behind the strictest firewall. */
export const BY_RELAY_ONLY = [
  '--webrtc-ip-handling-policy=disable_non_proxied_udp',
  '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
]

/** Tells pages the disk space that they really have. Without it, Chromium tells every page that 10 GiB more are left. */
export const REPORTED_QUOTA = ['--disable-features=StaticStorageQuota']

/** Names instead of addresses (mDNS) need a network that carries multicast. */
export const VISIBLE_ADDRESS = ['--disable-features=WebRtcHideLocalIpsWithMdns']

/** Flags that allow direct connections over loopback, which browsers exclude by default. */
export const DIRECT_ON_LOOPBACK = ['--allow-loopback-in-peer-connection', ...VISIBLE_ADDRESS]

/** SCTP's start inside the descriptions of both sides (SNAP), which released browsers do not do yet. */
export const SNAP = ['--enable-features=WebRtcSctpSnap']

/** Starts a browser with an empty profile; `flags` are added to the default ones. */
export function launch(flags = [], executablePath = EXECUTABLE) {
  return chromium.launch({ executablePath, headless: true, args: withFlags(flags) })
}

/** Starts a browser with a profile in a folder, which may have been prepared; `options` are Playwright's. */
export function launchWithProfile(folder, flags = [], options = {}) {
  return chromium.launchPersistentContext(folder, { executablePath: EXECUTABLE, headless: true, args: withFlags(flags), ...options })
}

/**
 * Collects the errors that our own pages cause in a browser: console errors, uncaught exceptions,
 * and violations of the content security policy. `isExpected(words)` is about errors that the browser itself writes.
 */
export async function collectPageErrors(context, { isExpected = (_words) => false } = {}) {
  const pageErrors = []
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy violated: ${event.effectiveDirective} by ${event.blockedURI}`)
    })
  })
  context.on('console', (message) => {
    // Errors of untrusted documents in their frames are ignored.
    const { url } = message.location()
    const isOurs = url !== 'about:srcdoc' && (!/^\w+:\/\/b[a-z2-7]{50,}\./.test(url) || url.includes('/.watchfire/'))
    if (message.type() === 'error' && isOurs) pageErrors.push(`${message.text()} (${url})`)
  })
  context.on('weberror', (webError) => {
    const error = webError.error()
    const words = error.stack ?? String(error)
    if (!isExpected(words)) pageErrors.push(words)
  })
  return pageErrors
}
