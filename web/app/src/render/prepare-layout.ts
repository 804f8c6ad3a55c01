import { kindOfName } from '@watchfire/pages/files'

/** Begins to load the code that lays out a file of this name, while its bytes are on their way. */
export function prepareLayout(name: string | null): void {
  const kind = name === null ? undefined : kindOfName(name)?.kind
  const coming = kind === 'markdown' ? import('./markdown.ts') : kind === 'code' ? import('./highlight.ts') : null
  // The view loads it again, and shows the text without it if that fails.
  coming?.catch(() => undefined)
}
