import { language } from './language.ts'
import { part } from './part.ts'

/** The list of the files of a folder. */
export const folder = part('folder', {
  filter: 'Filter by name',
  sort: 'Sort by',
  byName: 'Name',
  bySize: 'Size',
  byDate: 'Date',
  byKind: 'Type',
  gallery: 'Gallery',
  pictures: { '=1': '1 picture', other: '{count} pictures' },
  picturesInAll: { '=1': '1 picture, {size} in all', other: '{count} pictures, {size} in all' },
  inAll: '{size} in all',
  close: 'Close',
  previous: 'Previous picture',
  next: 'Next picture',
  place: '{place} of {total}',
  inside: { '=1': '1 file', other: '{count} files' },
  matching: {
    '=0': 'No file has this in its name.',
    '=1': '1 file has this in its name.',
    other: '{count} files have this in their names.',
  },
})

/** Formatters are expensive to create, so the latest is kept. */
let dates: { tag: string; format: Intl.DateTimeFormat } | null = null

/** A day, such as "27 Nov 2026". */
export function dateText(at: number): string {
  const { tag } = language.value
  if (dates?.tag !== tag) dates = { tag, format: new Intl.DateTimeFormat(tag, { dateStyle: 'medium' }) }
  return dates.format.format(at)
}
