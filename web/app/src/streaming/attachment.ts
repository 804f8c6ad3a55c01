/**
 * A `Content-Disposition` that saves under this name (RFC 6266). A name beyond ASCII goes into `filename*` (RFC 8187),
 * after an ASCII substitute for clients that do not support it.
 */
export function attachment(name: string): string {
  const plain = name
    .normalize('NFKD')
    .replace(/[^\x20-\x7e]/gu, '_')
    .replace(/["\\%]/g, '_')
  return `attachment; filename="${plain}"; filename*=UTF-8''${extended(name)}`
}

/** `encodeURIComponent` leaves characters unescaped that have a meaning in a header. */
function extended(name: string): string {
  return encodeURIComponent(name.toWellFormed()).replace(/['()*!~]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`)
}
