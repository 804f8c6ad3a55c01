import { findReferencedFile } from '../files/directory.ts'
import {
  encodingOf,
  kindOf,
  markupOf,
  parseMarkup,
  SNIFFED_BYTES,
  stillDocument,
  type Declaring,
  type Encoding,
} from '@watchfire/pages/files'
import { measured } from '../files/reading.ts'
import type { DirectoryFile } from '../ui/site.ts'

/** Total bytes of the page's files that are inlined into its HTML; further files are left out. */
export const INLINED_BYTES_MAX = 32 * 1024 * 1024

const UTF8: Encoding = { label: 'utf-8', by: 'content' }

export interface PreparedHtml {
  html: string
  /** Referenced files that were too large to be inlined. */
  leftOut: number
}

/** Whether the markup may contain scripts. A false positive only shows a button without effect. */
export function mayHaveScripts(html: string): boolean {
  return /<script|\son[a-z]+\s*=|javascript:/i.test(html)
}

/** HTML for a frame without scripts, with the files that it names. */
export async function staticDocument(
  html: string,
  from: string,
  files: readonly DirectoryFile[],
  encoding: Encoding = UTF8,
): Promise<PreparedHtml> {
  const page = parseMarkup(html)
  const leftOut = await inlineFiles(page.root, from, files, { scripts: false, encoding })
  return { html: stillDocument(page), leftOut }
}

/** HTML for the sandboxed frame, whose policies come from the server. */
export async function scriptedDocument(
  html: string,
  from: string,
  files: readonly DirectoryFile[],
  encoding: Encoding = UTF8,
): Promise<PreparedHtml> {
  if (files.length <= 1) return { html, leftOut: 0 }
  const page = parseMarkup(html)
  const leftOut = await inlineFiles(page.root, from, files, { scripts: true, encoding })
  return { html: markupOf(page), leftOut }
}

/** Replaces references by the page's own files, because a sandboxed frame cannot fetch. */
async function inlineFiles(
  root: HTMLElement,
  from: string,
  files: readonly DirectoryFile[],
  { scripts, encoding }: { scripts: boolean; encoding: Encoding },
): Promise<number> {
  let room = INLINED_BYTES_MAX
  let leftOut = 0
  const take = async (reference: string | null): Promise<Blob | null> => {
    const found = reference === null ? null : findReferencedFile(files, reference, from)
    if (found === null) return null
    // A folder may state any size, or none.
    const file = await measured(found)
    if (file.size > room) {
      leftOut += 1
      return null
    }
    room -= file.size
    return file.blob()
  }
  for (const name of ['src', 'poster']) {
    for (const element of root.querySelectorAll(`img[${name}], video[${name}], audio[${name}], source[${name}]`)) {
      const reference = element.getAttribute(name)
      const blob = await take(reference)
      if (blob === null) continue
      element.setAttribute(name, await dataAddress(blob, reference ?? ''))
      element.removeAttribute('srcset')
    }
  }
  for (const link of root.querySelectorAll('link[rel~="stylesheet" i][href]')) {
    const blob = await take(link.getAttribute('href'))
    if (blob === null) continue
    const style = document.createElement('style')
    style.textContent = (await textBeside(blob, 'css', encoding)).replaceAll(/<\/style/gi, '<\\/style')
    link.replaceWith(style)
  }
  if (!scripts) return leftOut
  for (const script of root.querySelectorAll('script[src]')) {
    const blob = await take(script.getAttribute('src'))
    if (blob === null) continue
    script.removeAttribute('src')
    script.textContent = (await textBeside(blob, null, encoding)).replaceAll(/<\/script/gi, '<\\/script')
  }
  return leftOut
}

/** A style sheet or script that does not say its encoding has that of the document. */
async function textBeside(blob: Blob, declaring: Declaring | null, ofDocument: Encoding): Promise<string> {
  const bytes = new Uint8Array(await blob.arrayBuffer())
  const own = encodingOf(bytes, declaring)
  const isSaid = own.by === 'mark' || own.by === 'declaration'
  return new TextDecoder((isSaid ? own : ofDocument).label).decode(bytes)
}

async function dataAddress(blob: Blob, name: string): Promise<string> {
  const bytes = new Uint8Array(await blob.arrayBuffer())
  const kind = kindOf(name.replace(/[?#].*$/s, ''), bytes.subarray(0, SNIFFED_BYTES))
  const mime = 'mime' in kind ? kind.mime : 'application/octet-stream'
  return `data:${mime};base64,${base64(bytes)}`
}

function base64(bytes: Uint8Array): string {
  const CHUNK_BYTES = 0x6000
  let text = ''
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    text += btoa(String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES)))
  }
  return text
}
