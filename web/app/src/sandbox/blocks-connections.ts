interface BrandedNavigator {
  userAgentData?: { brands: readonly { brand: string; version: string }[] }
}

/** The first version of Chromium with `Connection-Allowlist`. */
const ALLOWLIST_CHROMIUM = 152

/**
 * Whether this browser blocks every connection of the sandboxed frame. A policy blocks requests, but neither WebRTC nor what a browser
 * does in advance: look up a name, or open a connection, for a link. A page cannot detect that, so the version decides. A browser that
 * hides its version counts as one that does not.
 */
export function blocksConnections(navigator: unknown): boolean {
  const { userAgentData } = navigator as BrandedNavigator
  return (
    userAgentData?.brands.some(({ brand, version }) => brand === 'Chromium' && Number.parseInt(version, 10) >= ALLOWLIST_CHROMIUM) === true
  )
}
