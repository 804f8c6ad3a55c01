import { kindOfName } from '@watchfire/pages/files'

const SHEET = 'M6 2.5h8l5 5v14H6z'
const TEXT = `${SHEET}M9 11h7M9 14.5h7M9 18h4`
const CODE = `${SHEET}M10.5 11.5L8 14l2.5 2.5M14.5 11.5L17 14l-2.5 2.5`

const MARKS = {
  folder: 'M2.5 6.5a1 1 0 0 1 1-1h5l2 2.5h10a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1h-17a1 1 0 0 1-1-1z',
  text: TEXT,
  markdown: TEXT,
  code: CODE,
  html: CODE,
  picture: 'M3 5h18v14H3zM3 16l5-5 4.5 4.5 3-3 5.5 5M15.5 9a.8.8 0 1 0 .1 0',
  audio: 'M9 17.5V6l10-2v11.5M9 17.5a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0zm10-2a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0z',
  video: 'M3 5.5h18v13H3zM10 9l5 3-5 3z',
  pdf: `${SHEET}M9 17v-5h1.5a1.5 1.5 0 0 1 0 3H9m5 2v-5`,
  other: SHEET,
} as const

/** The icon of a file by its name, or of a folder without one. */
export function FileIcon({ path = null }: { path?: string | null }) {
  const kind = path === null ? 'folder' : (kindOfName(path)?.kind ?? 'other')
  return (
    <svg class={`file-icon ${kind}`} viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
      <path d={MARKS[kind]} />
    </svg>
  )
}
