interface BrandedNavigator {
  userAgentData?: { brands: readonly { brand: string; version: string }[] }
}

/** Chromium from this version on obeys `Connection-Allowlist`, which closes WebRTC too. */
const ALLOWLIST_CHROMIUM = 152

/**
 * Whether this browser closes every connection of the sealed frame. A page cannot ask for that, so
 * the version decides, and a browser that hides it counts as one that does not.
 */
export function sealsConnections(navigator: unknown): boolean {
  const { userAgentData } = navigator as BrandedNavigator
  return userAgentData?.brands.some(
    ({ brand, version }) => brand === 'Chromium' && Number.parseInt(version, 10) >= ALLOWLIST_CHROMIUM,
  ) === true
}
