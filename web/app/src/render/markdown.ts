import { Marked } from 'marked'
import type { DirectoryFile } from '../ui/site.ts'
import { fileLink } from '../ui/location.ts'
import { findReferencedFile } from '../files/directory.ts'
import { pictureType, SNIFFED_BYTES } from '../files/kind.ts'
import { sanitise } from './sanitise.ts'

const parser = new Marked({ gfm: true, breaks: false, async: false })

export interface BuiltMarkdown {
  nodes: DocumentFragment
  /** The object URLs of its pictures, to be revoked when it is unmounted. */
  addresses: readonly string[]
}

/** Renders Markdown with the pictures of its directory. */
export async function buildMarkdown(text: string, from: string, files: readonly DirectoryFile[]): Promise<BuiltMarkdown> {
  const markup = parser.parse(text, { async: false })
  const wanted = new Map<DirectoryFile, string | null>()
  const note = (reference: string) => {
    const file = findReferencedFile(files, reference, from)
    if (file !== null) wanted.set(file, null)
    return null
  }
  sanitise(markup, { picture: note, file: () => null })
  for (const file of wanted.keys()) wanted.set(file, await pictureAddress(file))

  const nodes = sanitise(markup, {
    picture: (reference) => {
      const file = findReferencedFile(files, reference, from)
      return file === null ? null : (wanted.get(file) ?? null)
    },
    file: (reference) => {
      const file = findReferencedFile(files, reference, from)
      return file === null ? null : fileLink(file.path)
    },
  })
  await highlightCodeBlocks(nodes)
  return { nodes, addresses: [...wanted.values()].filter((address) => address !== null) }
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

async function pictureAddress(file: DirectoryFile): Promise<string | null> {
  const blob = await file.blob()
  const head = new Uint8Array(await blob.slice(0, SNIFFED_BYTES).arrayBuffer())
  const mime = pictureType(file.path, head)
  return mime === null ? null : URL.createObjectURL(blob.slice(0, blob.size, mime))
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

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
