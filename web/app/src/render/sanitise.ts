import { parseBody } from '@watchfire/pages/files'
import { openOutside, outsideAddress } from '../files/outside-link.ts'
import { files } from '../messages/files.ts'

/**
 * Turns untrusted markup into nodes that are safe in our own document.
 *
 * The markup is parsed into an inert document, where nothing loads or runs. It is then rebuilt
 * from the elements and attributes listed here. The result is never serialised and parsed again,
 * so it cannot be read differently the second time.
 */
export interface References {
  /**
   * The address of a picture the page itself brings (blob: or data:), `null` if it brings none. A picture whose address
   * comes later is added then.
   */
  picture: (reference: string) => string | null | Promise<string | null>
  /** The URL of a file of the page; `null` when the page has no such file. */
  file: (reference: string) => string | null
}

/** Elements nested deeper than this lose their markup and keep their text. */
const DEPTH_MAX = 100

const KEPT: Record<string, readonly string[]> = {
  A: ['title'],
  ABBR: ['title'],
  B: [],
  BDI: [],
  BLOCKQUOTE: [],
  BR: [],
  CAPTION: [],
  CITE: [],
  CODE: [],
  COL: ['span'],
  COLGROUP: ['span'],
  DD: [],
  DEL: [],
  DETAILS: ['open'],
  DFN: [],
  DIV: [],
  DL: [],
  DT: [],
  EM: [],
  FIGCAPTION: [],
  FIGURE: [],
  H1: [],
  H2: [],
  H3: [],
  H4: [],
  H5: [],
  H6: [],
  HR: [],
  I: [],
  IMG: ['alt', 'title', 'width', 'height'],
  INS: [],
  KBD: [],
  LI: ['value'],
  MARK: [],
  OL: ['start', 'reversed'],
  P: [],
  PRE: [],
  Q: [],
  RP: [],
  RT: [],
  RUBY: [],
  S: [],
  SAMP: [],
  SMALL: [],
  SPAN: [],
  STRONG: [],
  SUB: [],
  SUMMARY: [],
  SUP: [],
  TABLE: [],
  TBODY: [],
  TD: ['align', 'colspan', 'rowspan'],
  TFOOT: [],
  TH: ['align', 'colspan', 'rowspan', 'scope'],
  THEAD: [],
  TIME: ['datetime'],
  TR: [],
  U: [],
  UL: [],
  VAR: [],
  WBR: [],
}

/** Elements whose text is not for reading, or is parsed by other rules. */
const DROPPED_WHOLE = new Set([
  'AUDIO',
  'BUTTON',
  'CANVAS',
  'DATALIST',
  'EMBED',
  'FRAMESET',
  'HEAD',
  'IFRAME',
  'MATH',
  'NOEMBED',
  'NOFRAMES',
  'NOSCRIPT',
  'OBJECT',
  'PLAINTEXT',
  'SCRIPT',
  'SELECT',
  'STYLE',
  'SVG',
  'TEMPLATE',
  'TEXTAREA',
  'TITLE',
  'VIDEO',
  'XMP',
])

const HTML_NAMESPACE = 'http://www.w3.org/1999/xhtml'

/** Rebuilds `markup`, safe to insert. Code keeps its `language-…` and `hljs-…` classes. */
export function sanitise(markup: string, references: References): DocumentFragment {
  const result = document.createDocumentFragment()
  rebuildChildren(parseBody(markup), result, references, 0)
  return result
}

function rebuildChildren(from: Node, into: Node, references: References, depth: number): void {
  for (const child of from.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) into.appendChild(new Text(child.nodeValue ?? ''))
    else if (child instanceof Element) rebuildElement(child, into, references, depth + 1)
  }
}

function rebuildElement(from: Element, into: Node, references: References, depth: number) {
  if (from.namespaceURI !== HTML_NAMESPACE || DROPPED_WHOLE.has(from.tagName)) return
  if (depth > DEPTH_MAX) {
    into.appendChild(new Text(from.textContent ?? ''))
    return
  }
  if (from.tagName === 'INPUT') {
    if (from.getAttribute('type') === 'checkbox') into.appendChild(checkbox(from))
    return
  }
  const attributes = Object.hasOwn(KEPT, from.tagName) ? KEPT[from.tagName] : undefined
  if (attributes === undefined) {
    rebuildChildren(from, into, references, depth)
    return
  }
  if (from.tagName === 'IMG') {
    into.appendChild(picture(from, references))
    return
  }
  const element = document.createElement(from.tagName)
  copyAttributes(from, element, attributes)
  copyClasses(from, element)
  // Long lines scroll, so keyboard users must be able to focus them.
  if (from.tagName === 'PRE') element.tabIndex = 0
  if (from.tagName === 'A') aim(element as HTMLAnchorElement, from, references)
  into.appendChild(element)
  rebuildChildren(from, element, references, depth)
}

function copyAttributes(from: Element, into: Element, names: readonly string[]) {
  for (const name of [...names, 'lang', 'dir', 'data-anchor']) {
    const value = from.getAttribute(name)
    if (value !== null) into.setAttribute(name, value)
  }
}

function copyClasses(from: Element, into: Element) {
  if (from.tagName !== 'CODE' && from.tagName !== 'SPAN') return
  const kept = [...from.classList].filter((name) => /^(?:language|hljs)-[\w+#-]{1,40}$/.test(name))
  if (kept.length > 0) into.setAttribute('class', kept.join(' '))
}

/** A read-only checkbox of a task list. */
function checkbox(from: Element): HTMLElement {
  const done = from.hasAttribute('checked')
  const box = document.createElement('span')
  box.className = done ? 'task done' : 'task'
  box.setAttribute('role', 'img')
  box.setAttribute('aria-label', files(done ? 'done' : 'toDo'))
  return box
}

/** A picture of the page. A picture of another site becomes a link, because loading it would contact that site. */
function picture(from: Element, references: References): Node {
  const reference = from.getAttribute('src') ?? ''
  const words = from.getAttribute('alt') ?? ''
  const source = isPictureInline(reference) ? reference : references.picture(reference)
  if (source !== null) {
    const image = document.createElement('img')
    copyAttributes(from, image, KEPT['IMG'] ?? [])
    image.alt = words
    if (typeof source === 'string') image.setAttribute('src', source)
    else void addLater(image, words, source)
    return image
  }
  const elsewhere = outsideAddress(reference)
  if (elsewhere === null || elsewhere.protocol === 'mailto:') {
    return missingPicture(words)
  }
  const link = document.createElement('a')
  link.className = 'missing-picture'
  link.textContent =
    words === '' ? files('elsewhere', { host: elsewhere.host }) : files('elsewhereOf', { host: elsewhere.host, name: words })
  openOutside(link, elsewhere)
  return link
}

async function addLater(image: HTMLImageElement, words: string, coming: Promise<string | null>): Promise<void> {
  image.className = 'coming-picture'
  const source = await coming.catch(() => null)
  image.removeAttribute('class')
  if (source === null) image.replaceWith(missingPicture(words))
  else image.setAttribute('src', source)
}

function missingPicture(words: string): HTMLElement {
  const missing = document.createElement('span')
  missing.className = 'missing-picture'
  missing.textContent = words === '' ? files('noPicture') : files('noPictureOf', { name: words })
  return missing
}

function aim(link: HTMLAnchorElement, from: Element, references: References) {
  const reference = from.getAttribute('href')
  if (reference === null) return
  if (reference.startsWith('#') && reference.length > 1) {
    link.setAttribute('href', reference)
    return
  }
  const outside = outsideAddress(reference)
  if (outside !== null) {
    openOutside(link, outside)
    return
  }
  const file = references.file(reference)
  if (file !== null) link.setAttribute('href', file)
}

function isPictureInline(reference: string): boolean {
  return /^data:image\/(?:png|jpeg|gif|webp|avif|svg\+xml)[;,]/i.test(reference)
}
