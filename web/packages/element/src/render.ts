import type { Listing } from '@watchfire/pages'
import { sizeText } from '@watchfire/pages/messages'
import { kindOf, SNIFFED_BYTES } from './kind.ts'
import { text } from './messages/element.ts'

/** The most bytes of text, and of HTML, that are shown. Of longer texts the beginning is shown. */
const SHOWN_BYTES_MAX = 1 << 20
/** The most files that are listed. The link to the server's own view shows all. */
const LISTED_FILES_MAX = 500

/** HTML is shown without scripts, connections and forms. */
const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; font-src data:; base-uri 'none'; form-action 'none'"

/** A page as `render` needs it. */
export interface Readable {
  listing(): Listing | null
  file(path: string): Promise<Blob>
}

/** The content of a page for a document. `dispose` frees what it uses. */
export interface Rendered {
  readonly node: HTMLElement
  dispose(): void
}

/** `address`: the page on its server. */
export async function render(page: Readable, address: string): Promise<Rendered> {
  const files = page.listing()?.files ?? []
  const [only] = files
  if (files.length === 1 && only !== undefined) return renderFile(await page.file(only.path), only.path)
  const list = document.createElement('ul')
  const urls: string[] = []
  for (const { path, size } of files.slice(0, LISTED_FILES_MAX)) {
    const row = list.appendChild(document.createElement('li'))
    const button = row.appendChild(document.createElement('button'))
    button.type = 'button'
    button.textContent = text('save', { name: path, size: sizeText(size ?? 0) })
    button.addEventListener('click', () => {
      // It fails when the page is closed; then the list is gone too.
      page.file(path).then(
        (blob) => save(blob, path, urls),
        () => undefined,
      )
    })
  }
  const link = list.appendChild(document.createElement('li')).appendChild(document.createElement('a'))
  link.href = address
  link.textContent = text('open', { host: new URL(address).host })
  const dispose = () => {
    for (const url of urls) URL.revokeObjectURL(url)
  }
  return { node: list, dispose }
}

/** Shows a text, whatever it begins with. */
export async function renderText(blob: Blob): Promise<Rendered> {
  return { node: textOf(await blob.slice(0, SHOWN_BYTES_MAX).text()), dispose: () => undefined }
}

async function renderFile(blob: Blob, path: string): Promise<Rendered> {
  const start = new Uint8Array(await blob.slice(0, SNIFFED_BYTES).arrayBuffer())
  const { kind, type } = kindOf(start)
  if (kind === 'text' || kind === 'html') {
    const written = await blob.slice(0, SHOWN_BYTES_MAX).text()
    return { node: kind === 'html' && blob.size <= SHOWN_BYTES_MAX ? frameOf(written) : textOf(written), dispose: () => undefined }
  }
  const url = URL.createObjectURL(blob.slice(0, blob.size, type))
  return { node: mediaOf(kind, url, path, blob.size), dispose: () => URL.revokeObjectURL(url) }
}

function mediaOf(kind: 'picture' | 'video' | 'sound' | 'other', url: string, path: string, bytes: number): HTMLElement {
  if (kind === 'picture') {
    const picture = document.createElement('img')
    picture.src = url
    picture.alt = path
    return picture
  }
  if (kind === 'other') {
    const link = document.createElement('a')
    link.href = url
    link.download = nameOf(path)
    link.textContent = text('save', { name: nameOf(path), size: sizeText(bytes) })
    return link
  }
  const player = document.createElement(kind === 'video' ? 'video' : 'audio')
  player.controls = true
  player.src = url
  return player
}

function textOf(written: string): HTMLElement {
  const block = document.createElement('pre')
  block.textContent = written
  return block
}

function frameOf(html: string): HTMLElement {
  const parsed = new DOMParser().parseFromString(html, 'text/html')
  // An element whose name is `documentElement` or `head` hides that member of its document in Firefox and WebKit.
  const root = Reflect.get(Document.prototype, 'documentElement', parsed) as HTMLElement
  // A link element may look up a name before the policy blocks it, and another refresh would navigate.
  for (const each of root.querySelectorAll('link, base, meta[http-equiv]')) each.remove()
  for (const link of root.querySelectorAll('a[href], area[href]')) link.setAttribute('target', '_blank')
  const policy = document.createElement('meta')
  policy.setAttribute('http-equiv', 'Content-Security-Policy')
  policy.setAttribute('content', POLICY)
  root.prepend(policy)
  const frame = document.createElement('iframe')
  frame.setAttribute('sandbox', '')
  frame.srcdoc = `<!doctype html>${root.outerHTML}`
  return frame
}

function save(blob: Blob, path: string, urls: string[]): void {
  const link = document.createElement('a')
  // The type keeps a browser from showing the file on this site's origin.
  link.href = URL.createObjectURL(blob.slice(0, blob.size, 'application/octet-stream'))
  urls.push(link.href)
  link.download = nameOf(path)
  link.click()
}

const nameOf = (path: string): string => path.split('/').pop() || text('nameless')
