/** Longest label of a host name. */
const LABEL_LENGTH_MAX = 63

/**
 * The origin of a page's site, `null` where it can have none.
 *
 * @param key the CID as version 1 in base32
 * @param below the host and port below which the server has sites, `null` when it has none
 * @param protocol the app's own, such as `https:`
 */
export function siteOrigin(key: string, below: string | null, protocol: string): string | null {
  // Hosts are read without regard to case, so no other base will do.
  if (below === null || key.length > LABEL_LENGTH_MAX || !/^b[a-z2-7]+$/.test(key)) return null
  return `${protocol}//${key}.${below}`
}

/** The path of an address on a site for a file's path, such as `/a%20b/%C3%A9.html`. */
export function addressOf(path: string): string {
  return `/${path.split('/').map(encodeURIComponent).join('/')}`
}

/**
 * The file's path that an address means, `null` when it can mean none. Browsers have taken `..` out of
 * it already; what is still encoded must be one name.
 */
export function pathOf(address: string): string | null {
  const names: string[] = []
  for (const part of address.replace(/^\//, '').split('/')) {
    let name: string
    try {
      name = decodeURIComponent(part)
    } catch {
      return null
    }
    if (name.includes('/') || name.includes('\0') || name === '.' || name === '..') return null
    names.push(name)
  }
  return names.join('/')
}
