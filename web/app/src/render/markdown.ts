import { Marked } from 'marked'
import type { DirectoryFile } from '../ui/site.ts'
import { fileLink } from '../ui/location.ts'
import { decoded } from '../ui/route.ts'
import { findReferencedFile } from '../files/directory.ts'
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
  const nodes = sanitise(parser.parse(text, { async: false }), {
    picture: (reference) => {
      const file = findReferencedFile(files, reference, from)
      return file === null ? null : pictures.addressOf(file)
    },
    file: (reference) => {
      const file = findReferencedFile(files, reference, from)
      return file === null ? null : fileLink(file.path)
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

/** The heading that a link such as `#my-part` names. */
export function findHeading(within: ParentNode, fragment: string): Element | null {
  const wanted = headingSlug(decoded(fragment.replace(/^#/, '')))
  const headings = within.querySelectorAll('h1, h2, h3, h4, h5, h6')
  return [...headings].find((heading) => headingSlug(heading.textContent ?? '') === wanted) ?? null
}

function headingSlug(words: string): string {
  return words
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
}
