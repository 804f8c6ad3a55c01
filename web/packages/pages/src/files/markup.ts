import { trusted } from '../browser/trusted-types.ts'

/** A parsed document. */
export interface Markup {
  readonly root: HTMLElement
  readonly hasDoctype: boolean
}

/**
 * Untrusted markup in an inert document, where nothing runs or loads. An element whose name is `head`, `body` or
 * `createElement` hides that member of its document, in Firefox and WebKit also here. So everything is reached from the root.
 */
export function parseMarkup(markup: string): Markup {
  const parsed = new DOMParser().parseFromString(trusted(markup, 'createHTML'), 'text/html')
  const member = (name: 'documentElement' | 'doctype'): unknown => Reflect.get(Document.prototype, name, parsed)
  return { root: member('documentElement') as HTMLElement, hasDoctype: member('doctype') !== null }
}

/** The text of a document that was parsed. */
export function markupOf({ root, hasDoctype }: Markup): string {
  return `${hasDoctype ? '<!doctype html>' : ''}${root.outerHTML}`
}

/**
 * The body of untrusted markup without names and identifiers: a form hides its members behind the names of its fields. Links find an
 * element by what it was called, which is in `data-anchor`.
 */
export function parseBody(markup: string): Element {
  const { root } = parseMarkup(markup)
  for (const element of root.querySelectorAll('[name], [id]')) {
    for (const name of ['name', 'id']) {
      const called: unknown = Reflect.apply(Element.prototype.getAttribute, element, [name])
      if (called !== null) Reflect.apply(Element.prototype.setAttribute, element, ['data-anchor', called])
      Reflect.apply(Element.prototype.removeAttribute, element, [name])
    }
  }
  return root.querySelector(':scope > body') ?? document.createElement('body')
}
