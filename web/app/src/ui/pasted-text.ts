import { sameness } from '../names/index.ts'
import type { PageFile } from './site.ts'

/**
 * Whether the text of a clipboard is more than the names of its files. A spreadsheet offers its cells as text and as a
 * picture, and a file manager the names or paths of copied files as text.
 */
export function isPastedText(text: string, files: readonly PageFile[]): boolean {
  const isName = (line: string) => files.some(({ path }) => sameness(nameIn(line.trim())) === sameness(path))
  return text.trim() !== '' && !text.trim().split('\n').every(isName)
}

function nameIn(line: string): string {
  const name = line.replace(/^.*[/\\]/, '')
  try {
    return line.startsWith('file:') ? decodeURIComponent(name) : name
  } catch {
    return name
  }
}
