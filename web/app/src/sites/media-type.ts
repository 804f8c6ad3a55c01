import { encodingOf, kindOf, SNIFFED_BYTES } from '@watchfire/pages/files'

/** Types that a browser requires for the resources of a page, besides those that the app itself shows. */
const TYPES: Record<string, string> = {
  css: 'text/css',
  html: 'text/html',
  htm: 'text/html',
  xhtml: 'application/xhtml+xml',
  js: 'text/javascript',
  mjs: 'text/javascript',
  json: 'application/json',
  map: 'application/json',
  xml: 'application/xml',
  wasm: 'application/wasm',
  vtt: 'text/vtt',
  csv: 'text/csv',
  webmanifest: 'application/manifest+json',
  woff: 'font/woff',
  woff2: 'font/woff2',
  ttf: 'font/ttf',
  otf: 'font/otf',
  pdf: 'application/pdf',
}

/** Bytes of a text that are searched for characters that are not UTF-8. */
const SEARCHED_BYTES_MAX = 4 << 20

/**
 * The content type of a file of a site. As with a plain server, a document declares its encoding itself, and a style sheet
 * or script without a declaration has the encoding of its document. Only UTF-8 that declares nothing is stated here.
 */
export async function contentType(path: string, blob: Blob): Promise<string> {
  const type = mediaType(path, new Uint8Array(await blob.slice(0, SNIFFED_BYTES).arrayBuffer()))
  if (!type.startsWith('text/') || type === 'text/css' || type === 'text/javascript') return type
  const bytes = new Uint8Array(await blob.slice(0, SEARCHED_BYTES_MAX).arrayBuffer())
  const { by } = encodingOf(bytes, type === 'text/html' ? 'html' : null)
  return by === 'content' ? `${type}; charset=utf-8` : type
}

/** The media type of a file, by its name, or by its first bytes when the name does not decide. */
function mediaType(path: string, head: Uint8Array): string {
  const extension = /\.([a-z0-9]+)$/i.exec(path)?.[1]?.toLowerCase() ?? ''
  const known = Object.hasOwn(TYPES, extension) ? TYPES[extension] : undefined
  if (known !== undefined) return known
  const kind = kindOf(path, head)
  switch (kind.kind) {
    case 'html':
      return 'text/html'
    case 'text':
    case 'markdown':
    case 'code':
      return 'text/plain'
    case 'picture':
    case 'audio':
    case 'video':
      return kind.mime
    case 'pdf':
    case 'other':
      return 'application/octet-stream'
  }
}
