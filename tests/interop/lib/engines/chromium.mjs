// Chromium, over CDP.

import { existsSync } from 'node:fs'

import { BY_RELAY_ONLY, DIRECT_ON_LOOPBACK, EXECUTABLE, SNAP, collectPageErrors, launch, removeWebTransport } from '../chromium.mjs'

export const chromium = {
  name: 'chromium',
  title: 'Chromium',
  canConnectDirectly: true,
  lacks: {},
  opens: [],
  whyMissing: () => (existsSync(EXECUTABLE) ? null : `${EXECUTABLE} does not exist; \`make tools\` installs it`),
  launch: ({ direct = false, snap = false } = {}) => launch([...(direct ? DIRECT_ON_LOOPBACK : BY_RELAY_ONLY), ...(snap ? SNAP : [])]),
  async prepare(context, { direct = false } = {}) {
    // Chromium hides its addresses on loopback from pages that may not use a microphone.
    if (direct) await context.grantPermissions(['microphone'])
    else await context.addInitScript(removeWebTransport)
    return collectPageErrors(context)
  },
}
