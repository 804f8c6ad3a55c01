import '../style/page.css'
import { sizeText } from '../messages/index.ts'
import { home } from '../messages/home.ts'
import type { PageFile } from '../ui/site.ts'
import type { Draft } from './draft.ts'
import { isLoose, without } from './draft-files.ts'

const CHIPS_MAX = 50

interface ChipsProps {
  draft: Draft
  onPutInText: (file: PageFile) => void
  onChange: (draft: Draft) => void
}

/** The files of a draft. */
export function Chips({ draft, onPutInText, onChange }: ChipsProps) {
  const { files } = draft
  const more = files.length - CHIPS_MAX
  return (
    <ul class="chips" aria-label={home('files')}>
      {files.slice(0, CHIPS_MAX).map((file) => (
        <li key={file.path}>
          <span dir="auto" translate={false}>
            {file.path}
          </span>{' '}
          <small>{sizeText(file.blob.size)}</small>
          {isLoose(draft, file) && (
            <button type="button" onClick={() => onPutInText(file)}>
              {home('putInText')}
            </button>
          )}
          <button type="button" aria-label={home('remove', { name: file.path })} onClick={() => onChange(without(draft, file))}>
            ×
          </button>
        </li>
      ))}
      {more > 0 && <li>{home('more', { count: more })}</li>}
    </ul>
  )
}
