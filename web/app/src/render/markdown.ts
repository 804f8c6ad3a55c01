import { Marked } from 'marked'
import type { DirectoryFile } from '../ui/site.ts'
import { fileLink } from '../ui/location.ts'
import { decodedPart } from '@watchfire/pages/addresses'
import { findReferencedFile, findReferencedPlace } from '../files/directory.ts'
import { frontMatterOf } from '../files/front-matter.ts'
import type { PagePictures } from './page-pictures.ts'
import { sanitise } from './sanitise.ts'

const parser = new Marked({ gfm: true, breaks: false, async: false })

/** Renders Markdown. The pictures of its directory are added as they arrive. */
export async function buildMarkdown(
  text: string,
  from: string,
  files: readonly DirectoryFile[],
  pictures: PagePictures,
): Promise<DocumentFragment> {
  const front = frontMatterOf(text)
  const markup = `${front.markup}${parser.parse(text.slice(front.length), { async: false })}`
  const nodes = sanitise(markup, {
    picture: (reference) => {
      const file = findReferencedFile(files, reference, from)
      return file === null ? null : pictures.addressOf(file)
    },
    file: (reference) => {
      const file = findReferencedPlace(files, reference, from)
      const [, part = ''] = /#(.+)$/s.exec(reference) ?? []
      if (file?.path === from && part !== '') return `#${part}`
      return file === null ? null : fileLink(file.path, part === '' ? null : decodedPart(part))
    },
  })
  await highlightCodeBlocks(nodes)
  return nodes
}

/** Highlights code blocks that name their language, as far as that takes no noticeable time. */
async function highlightCodeBlocks(nodes: DocumentFragment): Promise<void> {
  const fences = nodes.querySelectorAll('pre > code[class^="language-"]')
  if (fences.length === 0) return
  const { highlightCode, HIGHLIGHTED_BYTES_MAX } = await import('./highlight.ts')
  let room = HIGHLIGHTED_BYTES_MAX
  for (const fence of fences) {
    const source = fence.textContent ?? ''
    room -= source.length
    if (room < 0) return
    const markup = await highlightCode(source, fence.className.replace('language-', ''))
    if (markup === null) continue
    // The parser drops the first newline of a pre element, so one is added.
    const built = sanitise(`<pre>\n${markup}</pre>`, { picture: () => null, file: () => null })
    fence.replaceChildren(...(built.firstElementChild?.childNodes ?? []))
  }
}

/** The heading or anchor that a link such as `#my-part` names. Headings with the same words have numbers, as on GitHub. */
export function findPart(within: ParentNode, fragment: string): Element | null {
  const name = decodedPart(fragment.replace(/^#/, ''))
  const wanted = headingSlug(name)
  const taken = new Set<string>()
  for (const heading of within.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    const slug = headingSlug(heading.textContent ?? '')
    let own = slug
    for (let n = 1; taken.has(own); n += 1) own = `${slug}-${n}`
    taken.add(own)
    if (own === wanted) return heading
  }
  return [...within.querySelectorAll('[data-anchor]')].find((anchor) => anchor.getAttribute('data-anchor') === name) ?? null
}

function headingSlug(words: string): string {
  return words
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
}
