/** The place of an address: on the internet, in a local network, on the machine itself, or not known, as of a name. */
export type AddressPlace = 'internet' | 'network' | 'machine' | 'unknown'

/** The place of a host with a port. */
export function placeOfAddress(address: string): AddressPlace {
  const url = `https://${address}`
  // The browser also reads `127.1` and `0x7f000001` as addresses, and writes them in full.
  return URL.canParse(url) ? placeOfHost(new URL(url).hostname) : 'unknown'
}

/** The place of a page with this host. A name is of the internet, as far as the page can know. */
export function placeOfPage(host: string): Exclude<AddressPlace, 'unknown'> {
  if (/^(.*\.)?localhost$/.test(host)) return 'machine'
  if (host.endsWith('.local')) return 'network'
  const place = placeOfHost(host)
  return place === 'unknown' ? 'internet' : place
}

function placeOfHost(host: string): AddressPlace {
  const [, a, b] = /^(\d+)\.(\d+)\.\d+\.\d+$/.exec(host) ?? []
  if (a !== undefined) return placeOfIpv4(Number(a), Number(b))
  if (host === '[::1]' || host === '[::]') return 'machine'
  if (/^\[f[cde]/.test(host)) return 'network'
  // Others contain an IPv4 address, or have no use here.
  return /^\[[23]...:/.test(host) ? 'internet' : 'unknown'
}

/** The place of an IPv4 address with these first two numbers. */
function placeOfIpv4(a: number, b: number): AddressPlace {
  if (a === 127 || a === 0) return 'machine'
  const isPrivate = a === 10 || (a === 172 && b >> 4 === 1) || (a === 192 && b === 168)
  const isShared = a === 100 && b >> 6 === 1
  const isOfLink = a === 169 && b === 254
  return isPrivate || isShared || isOfLink || a >= 224 ? 'network' : 'internet'
}
