import type { LiveEntry } from '@watchfire/pages/live'
import { useMemo, useState } from 'preact/hooks'
import { language, sizeText } from '../messages/index.ts'
import { live as text } from '../messages/live.ts'
import { shownName } from '../names/index.ts'
import { FileContent, indexOf } from '../render/index.ts'
import { SaveLink } from '../save/SaveLink.tsx'
import type { DirectoryFile } from '../ui/site.ts'
import { NOTE_NAME } from './entries.ts'

/** Files of a folder that are listed. */
const FILES_MAX = 100

interface EntryViewProps {
  entry: LiveEntry
  /** Its file, or those of its folder, as far as they are known. */
  files: readonly DirectoryFile[]
  /** Whether another entry has the same number, or an earlier one does. */
  isDisputed: boolean
}

/** One entry of a live page. */
export function EntryView({ entry: { number, timeMs, form, name, path }, files, isDisputed }: EntryViewProps) {
  const [only] = files
  const isFile = only !== undefined && only.path === path
  const isNamed = form === 'file' && name !== NOTE_NAME
  return (
    <li value={number}>
      <header class="small">
        <span>{text('number', { number: String(number) })}</span>
        <Time ms={timeMs} />
        {isDisputed && <b class="bad">{text('disputed')}</b>}
        {isNamed && <FileName name={name} file={isFile ? only : null} />}
      </header>
      {files.length === 0 && <p class="fetching" aria-busy="true" />}
      {isFile && <FileContent name={form === 'text' ? 'text.txt' : name} file={only} />}
      {files.length > 0 && !isFile && <Folder files={files} prefix={`${path}/`} />}
    </li>
  )
}

function FileName({ name, file }: { name: string; file: DirectoryFile | null }) {
  return (
    <>
      <span class="name" dir="auto" translate={false}>
        {shownName(name)}
      </span>
      {file !== null && (
        <>
          <span>{sizeText(file.size)}</span>
          <SaveLink file={{ ...file, name: name || 'file', isNameless: name === '' }} />
        </>
      )}
    </>
  )
}

/** A folder: the file that it opens with, and a list of the others. Each of them is shown when it is opened. */
function Folder({ files, prefix }: { files: readonly DirectoryFile[]; prefix: string }) {
  // The files of an entry stay the same objects, and more of them become known.
  const inside = useMemo(() => files.map((file) => ({ ...file, path: file.path.slice(prefix.length) })), [files[0], files.length])
  const main = indexOf(inside)
  const others = inside.filter((file) => file !== main)
  const more = others.length - FILES_MAX
  return (
    <>
      {main !== null && <FileContent name={main.path} file={main} beside={inside} />}
      <ul>
        {others.slice(0, FILES_MAX).map((file) => (
          <FileInFolder key={file.path} file={file} beside={inside} />
        ))}
        {more > 0 && <li>{text('moreFiles', { count: more })}</li>}
      </ul>
    </>
  )
}

function FileInFolder({ file, beside }: { file: DirectoryFile; beside: readonly DirectoryFile[] }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <li>
      <details onToggle={({ currentTarget: { open } }) => setOpen(open)}>
        <summary>
          <span dir="auto" translate={false}>
            {shownName(file.path)}
          </span>{' '}
          <small>{sizeText(file.size)}</small>
        </summary>
        {isOpen && (
          <>
            <SaveLink file={{ ...file, name: file.path.replace(/^.*\//, '') }} />
            <FileContent name={file.path} file={file} beside={beside} />
          </>
        )}
      </details>
    </li>
  )
}

/** The time of an entry. It is a claim of the publisher, and can be no date. */
function Time({ ms }: { ms: number }) {
  const at = new Date(ms)
  if (Number.isNaN(at.getTime())) return null
  return <time dateTime={at.toISOString()}>{at.toLocaleString(language.value.tag, { dateStyle: 'medium', timeStyle: 'short' })}</time>
}
