// Real browsers. Whoever the story calls another person has a browser process and a profile of their own.

import { chromium } from 'playwright-core'

const EXECUTABLE = process.env.CHROMIUM ?? '/usr/bin/chromium'

/**
 * What Playwright switches off, but for the parting of what frames of other sites keep: without that no frame of another
 * origin may have a worker, and no browser that people use is like that. The last such list counts.
 */
const OFF = [
  'AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades', 'HttpsFirstBalancedModeAutoEnable',
  'LensOverlay', 'MediaRouter', 'PaintHolding', 'AvoidCorsURLLoaderRestartOnRedirect', 'OptimizationHints',
  'NetworkTimeServiceQuerying', 'AimEnabled', 'PreconnectToSearch',
]

/** Quiet, and at home: a browser that looks for nothing on the internet. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  `--disable-features=${OFF.join(',')}`,
]

/** A browser that has WebRTC and is not let out by it, as behind the strictest of firewalls. */
export const BY_RELAY_ONLY = ['--webrtc-ip-handling-policy=disable_non_proxied_udp', '--force-webrtc-ip-handling-policy=disable_non_proxied_udp']

/** A browser to which loopback is a network, as it is to none by itself: there it may make direct connections. */
export const DIRECT_ON_LOOPBACK = ['--allow-loopback-in-peer-connection', '--disable-features=WebRtcHideLocalIpsWithMdns']

/** Starts a browser with an empty profile; `flags` come on top of the usual ones. */
export function launch(flags = []) {
  return chromium.launch({ executablePath: EXECUTABLE, headless: true, args: [...FLAGS, ...flags] })
}

/** The same with a profile that is kept in a folder, and may have been prepared there. */
export function launchWithProfile(folder, flags = []) {
  return chromium.launchPersistentContext(folder, { executablePath: EXECUTABLE, headless: true, args: [...FLAGS, ...flags] })
}

/**
 * Collects what a browser complains about on our own pages: errors on the console, exceptions that
 * nobody caught, and violations of the content security policy.
 */
export async function hearComplaints(context) {
  const complaints = []
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy violated: ${event.effectiveDirective} by ${event.blockedURI}`)
    })
  })
  context.on('console', (message) => {
    // A stranger's document in its frame may complain as it likes.
    const { url } = message.location()
    const isOurs = url !== 'about:srcdoc' && (!/^\w+:\/\/b[a-z2-7]{50,}\./.test(url) || url.includes('/.watchfire/'))
    if (message.type() === 'error' && isOurs) complaints.push(`${message.text()} (${url})`)
  })
  context.on('weberror', (error) => complaints.push(String(error.error())))
  return complaints
}
