/**
 * A `Content-Disposition` that saves under this name (RFC 6266). Names beyond ASCII go into `filename*` (RFC 8187), and
 * a plain stand-in before it for whoever does not read that.
 */
export function attachment(name: string): string {
  const plain = name.normalize('NFKD').replace(/[^\x20-\x7e]/gu, '_').replace(/["\\%]/g, '_')
  return `attachment; filename="${plain}"; filename*=UTF-8''${extended(name)}`
}

/** `encodeURIComponent` leaves some letters alone that have a meaning in a header. */
function extended(name: string): string {
  return encodeURIComponent(name.toWellFormed()).replace(/['()*!~]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`)
}
