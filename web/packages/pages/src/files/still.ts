/**
 * HTML without its scripts, connections and links.
 *
 * A policy in a document blocks requests, but not the navigation of the document itself: only the document around a frame can do
 * that, by its own policy. So the HTML is in a frame, in a document of ours whose policy allows no address for that frame. Links are
 * aimed at nothing too, so that a click shows no error. That alone would not be enough: markup that is written and parsed again may
 * contain a link that was not one before.
 */
import { trusted } from '../browser/trusted-types.ts'
import { markupOf, parseMarkup, type Markup } from './markup.ts'

/** Longer HTML is shown as text. */
export const HTML_BYTES_MAX = 16 * 1024 * 1024

/** Styles and inlined media are allowed, and no connections. */
const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; font-src data:; base-uri 'none'; form-action 'none'"

/** The name of a window that does not exist. */
const NO_WINDOW = 'watchfire-no-window'

const SVG = 'http://www.w3.org/2000/svg'
const MATHML = 'http://www.w3.org/1998/Math/MathML'

/** The height is for sites whose policy forbids this style. They forbid those of the HTML too. */
const FRAME_STYLE = '<style>html,body,iframe{display:block;width:100%;height:100%;margin:0;border:0}</style>'
const FRAME_SIZE = { width: '100%', height: '800' }

/** Shows HTML in a frame, which needs no other attribute than its title. Throws if a site with Trusted Types does not allow ours. */
export function showStill(frame: HTMLIFrameElement, html: string): void {
  const inner = document.createElement('iframe')
  inner.srcdoc = trusted(stillDocument(parseMarkup(html)), 'createHTML')
  for (const [name, value] of Object.entries({ sandbox: '', title: frame.title, ...FRAME_SIZE })) inner.setAttribute(name, value)
  frame.setAttribute('sandbox', '')
  frame.srcdoc = trusted(declaration('Content-Security-Policy', POLICY).outerHTML + FRAME_STYLE + inner.outerHTML, 'createHTML')
}

/**
 * HTML for a frame without scripts: the policy comes first, and links lead nowhere. Firefox looks up the names in links, also in a frame
 * whose outer document forbids it; after the first declaration, a later one of the page does not allow it again.
 */
export function stillDocument(page: Markup): string {
  for (const element of elementsIn(page.root)) {
    // The policy blocks the load of a link element, but some would still look up a name or open a connection.
    if (element instanceof HTMLLinkElement || isAnimatedLink(element)) element.remove()
    else if (element.namespaceURI === MATHML) dropAddresses(element)
    else if (element.localName === 'a' || element.localName === 'area') aimAtNothing(element)
  }
  page.root.prepend(declaration('Content-Security-Policy', POLICY), declaration('x-dns-prefetch-control', 'off'))
  return markupOf(page)
}

/** All elements, also those of templates: one may become a shadow tree. A form hides its members behind the names of its fields. */
function elementsIn(root: ParentNode): Element[] {
  const found = [...root.querySelectorAll('*')]
  for (const element of found) {
    if (element instanceof HTMLTemplateElement) for (const inside of element.content.querySelectorAll('*')) found.push(inside)
  }
  return found
}

function isAnimatedLink(element: Element): boolean {
  return element.namespaceURI === SVG && /href|target/i.test(element.getAttribute('attributeName') ?? '')
}

/** `href`, also with the prefix that SVG had. */
const addressesOf = (element: Element): Attr[] => [...element.attributes].filter(({ localName }) => localName === 'href')

/** In Firefox, any element of MathML can be a link, and none has a target. */
function dropAddresses(element: Element): void {
  for (const attribute of addressesOf(element)) element.removeAttributeNode(attribute)
}

function aimAtNothing(link: Element): void {
  for (const attribute of addressesOf(link)) {
    if (attribute.value.startsWith('#')) {
      // A srcdoc document resolves URLs against its parent's, and would navigate there.
      attribute.value = `about:srcdoc${attribute.value}`
      continue
    }
    // A frame that may not open windows ignores the click; without a target it would navigate itself. WebKit opens a connection at a
    // click if the target is `_blank`.
    link.setAttribute('target', NO_WINDOW)
    link.setAttribute('title', attribute.value)
  }
}

function declaration(name: string, content: string): HTMLMetaElement {
  const meta = document.createElement('meta')
  meta.setAttribute('http-equiv', name)
  meta.setAttribute('content', content)
  return meta
}
