// Firefox as released, over WebDriver BiDi. Playwright's own builds of Firefox are not needed.

import { existsSync } from 'node:fs'

// Later versions of Playwright need commands that Debian's Firefox does not have, such as emulation.setMediaFeaturesOverride.
import { firefox as playwright } from 'playwright-firefox'

import { collectPageErrors } from '../chromium.mjs'

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

const DIRECT_ON_LOOPBACK = {
  'media.peerconnection.ice.loopback': true,
  'media.peerconnection.ice.obfuscate_host_addresses': false,
}

/** Only candidates of TURN servers, of which there is none. */
const BY_RELAY_ONLY = { 'media.peerconnection.ice.relay_only': true }

export const firefox = {
  name: 'firefox',
  title: 'Firefox',
  canConnectDirectly: true,
  lacks: {
    devtools: 'the test uses the DevTools protocol of Chromium',
    netlog: 'the test reads the network log of Chromium',
    media: 'Playwright sets colours and motion with a command that this Firefox does not have',
  },
  whyMissing: () => (existsSync(EXECUTABLE) ? null : `${EXECUTABLE} does not exist; \`make engine-tools\` installs it`),
  launch: ({ direct = false } = {}) =>
    playwright.launch({
      // The channel selects WebDriver BiDi.
      channel: 'moz-firefox',
      executablePath: EXECUTABLE,
      headless: true,
      firefoxUserPrefs: { ...QUIET, ...(direct ? DIRECT_ON_LOOPBACK : BY_RELAY_ONLY) },
    }),
  prepare: (context) => collectPageErrors(context),
}
