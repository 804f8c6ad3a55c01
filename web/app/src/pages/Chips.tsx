import '../style/page.css'
import { useMemo, useState } from 'preact/hooks'
import { language, sizeText } from '../messages/index.ts'
import { editor } from '../messages/editor.ts'
import type { PageFile } from '../ui/site.ts'
import type { Draft } from './draft.ts'
import { groupsOf, isLoose, without, type Group } from './draft-files.ts'

/** Rows of an open list; a folder may have thousands of files. */
const ROWS_MAX = 1000

interface ChipsProps {
  draft: Draft
  onPutInText: (file: PageFile) => void
  onChange: (draft: Draft) => void
}

/** The files of a draft: a chip for each folder and each single file, and one for many. */
export function Chips(props: ChipsProps) {
  const { files } = props.draft
  const groups = useMemo(() => groupsOf(files), [files])
  return (
    <ul class="chips" aria-label={editor('files')}>
      {groups.map((group) => {
        const [only] = group.files
        const isSingle = group.folder === null && group.files.length === 1 && only !== undefined
        return isSingle ? <FileItem key={only.path} {...props} file={only} /> : <GroupItem key={group.folder} {...props} group={group} />
      })}
    </ul>
  )
}

/** The files of a folder, or many without one, with a sorted list that opens on demand. */
function GroupItem({ group: { folder, files }, ...props }: ChipsProps & { group: Group }) {
  const [isOpen, setOpen] = useState(false)
  const all = editor('inAll', { count: files.length, size: sizeText(files.reduce((sum, { blob }) => sum + blob.size, 0)) })
  return (
    <li class="many">
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          {folder === null ? all : editor.withNodes('inFolder', { name: <bdi translate={false}>{folder}</bdi>, files: all })}
        </summary>
        {isOpen && <FileList {...props} files={files} />}
      </details>
      <Remove {...props} name={folder ?? all} files={files} />
    </li>
  )
}

function FileList({ files, ...props }: ChipsProps & { files: readonly PageFile[] }) {
  const sorted = useMemo(() => {
    const { compare } = new Intl.Collator(language.peek().tag, { numeric: true })
    return [...files].sort((a, b) => compare(a.path, b.path))
  }, [files])
  const more = sorted.length - ROWS_MAX
  return (
    <ul>
      {sorted.slice(0, ROWS_MAX).map((file) => (
        <FileItem key={file.path} {...props} file={file} />
      ))}
      {more > 0 && <li>{editor('more', { count: more })}</li>}
    </ul>
  )
}

function FileItem({ file, ...props }: ChipsProps & { file: PageFile }) {
  return (
    <li>
      <span dir="auto" translate={false}>
        {file.path}
      </span>{' '}
      <small>{sizeText(file.blob.size)}</small>
      {isLoose(props.draft, file) && (
        <button type="button" onClick={() => props.onPutInText(file)}>
          {editor('putInText')}
        </button>
      )}
      <Remove {...props} name={file.path} files={[file]} />
    </li>
  )
}

function Remove({ draft, onChange, name, files }: ChipsProps & { name: string; files: readonly PageFile[] }) {
  return (
    <button type="button" aria-label={editor('remove', { name })} onClick={() => onChange(without(draft, files))}>
      ×
    </button>
  )
}
