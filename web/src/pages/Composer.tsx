import { useEffect, useRef, useState } from 'preact/hooks'
import { Flame } from '../ui/Flame.tsx'
import type { PageFile, PageSession, Site } from '../ui/site.ts'
import { percentOf, percentText, sizeText } from '../messages/index.ts'
import { home } from '../messages/home.ts'
import type { Draft, Writing } from './draft.ts'
import { bundle, draftBytes, isEmpty, pictureMarkup, withFiles } from './draft.ts'
import type { Dropped } from './dropped-files.ts'
import { Toggle } from './Toggle.tsx'
import { DROPPED_FILES_MAX, filesOf, filesOfDrop } from './dropped-files.ts'

const WRITINGS: readonly Writing[] = ['markdown', 'text', 'html']
const CHIPS_MAX = 50

interface ComposerProps {
  site: Site
  onCreate: (session: PageSession, filename: string | null) => void
}

/** The editor of the home page, with the files that go with the text. */
export function Composer({ site, onCreate }: ComposerProps) {
  const [draft, setDraft] = useState<Draft>({ writing: 'markdown', text: '', files: [] })
  const [problem, setProblem] = useState<string | null>(null)
  const [isPrivate, setPrivate] = useState(false)
  const [hashed, setHashed] = useState<number | null>(null)
  const box = useRef<HTMLTextAreaElement>(null)
  const work = useRef<AbortController | null>(null)
  const bytes = draftBytes(draft)
  const most = site.limits.value?.get('page_bytes_max')?.value ?? null
  const tooLarge = most !== null && bytes > most
  const empty = isEmpty(draft)
  const isCreating = hashed !== null

  const add = (added: readonly PageFile[]) => {
    setProblem(null)
    setDraft((before) => {
      const after = withFiles(before, added)
      const pictures = after.files.slice(before.files.length).filter(isPicture)
      if (before.writing !== 'markdown' || pictures.length === 0 || before.text.trim() === '') return after
      const markup = pictures.map(({ path }) => pictureMarkup(path)).join('\n')
      return { ...after, text: insertedAt(box.current, before.text, markup) }
    })
  }
  const dragging = useDrop((dropped) => {
    add(dropped?.files ?? [])
    if (dropped === null) setProblem(home('unreadable'))
    else if (dropped.cut) setProblem(home('cut', { count: DROPPED_FILES_MAX }))
  })
  const putInText = ({ path }: PageFile) =>
    setDraft({ ...draft, text: insertedAt(box.current, draft.text, pictureMarkup(path)) })
  const isLoose = (file: PageFile) =>
    draft.writing === 'markdown' && draft.text.trim() !== '' && isPicture(file) &&
    !draft.text.includes(pictureMarkup(file.path))
  useUnloadWarning(!empty)
  useEffect(() => () => work.current?.abort(), [])

  const create = async () => {
    if (tooLarge || isCreating) return
    if (empty) {
      setProblem(home('nothing'))
      box.current?.focus()
      return
    }
    const { files, filename } = bundle(draft)
    const controller = new AbortController()
    work.current = controller
    setProblem(null)
    setHashed(0)
    try {
      const options = { signal: controller.signal, onProgress: setHashed }
      const session = await site.share(files, isPrivate ? { ...options, sealed: { name: filename } } : options)
      onCreate(session, filename)
    } catch (reason) {
      setHashed(null)
      if (!controller.signal.aborted) setProblem(sentenceOf(reason))
    }
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    void create()
  }
  const onPaste = (event: ClipboardEvent) => {
    const pasted = event.clipboardData?.files
    if (!pasted || pasted.length === 0) return
    event.preventDefault()
    add(filesOf(pasted))
  }
  const placeholder = draft.writing === 'html' ? '<!doctype html>' : home('invitation')

  return (
    <form
      class={dragging ? 'composer dragging' : 'composer'}
      aria-busy={isCreating}
      onSubmit={(event) => {
        event.preventDefault()
        void create()
      }}
    >
      <div class="bar">
        <fieldset class="switch" disabled={isCreating}>
          <legend class="unseen">{home('writeIn')}</legend>
          {WRITINGS.map((writing) => (
            <label key={writing}>
              <input
                type="radio"
                name="writing"
                checked={draft.writing === writing}
                onChange={() => setDraft({ ...draft, writing })}
              />
              <span>{home(writing)}</span>
            </label>
          ))}
        </fieldset>
        <label class="button quiet picker">
          <input
            type="file"
            multiple
            disabled={isCreating}
            onChange={(event) => {
              if (event.currentTarget.files) add(filesOf(event.currentTarget.files))
              event.currentTarget.value = ''
            }}
          />
          <span>{home('addFiles')}</span>
        </label>
      </div>
      <textarea
        ref={box}
        aria-label={home('box')}
        dir="auto"
        class={draft.writing === 'html' ? 'code' : ''}
        placeholder={placeholder}
        value={draft.text}
        readOnly={isCreating}
        spellcheck={draft.writing !== 'html'}
        onInput={(event) => {
          setProblem(null)
          setDraft({ ...draft, text: event.currentTarget.value })
        }}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
      <Chips
        files={draft.files}
        isLoose={isLoose}
        onPutInText={putInText}
        onRemove={(gone) => setDraft({ ...draft, files: draft.files.filter((file) => file !== gone) })}
      />
      {problem !== null && (
        <p class="notice bad" role="alert">
          {problem}
        </p>
      )}
      {isPrivate && <p class="means small">{home('sealedMeans')}</p>}
      <div class="bar">
        <p class={tooLarge ? 'room bad' : 'room'} role="status">
          {roomText(bytes, most, empty)}
        </p>
        {!isCreating && (
          <Toggle label={home('sealed')} isOn={isPrivate} onChange={setPrivate} />
        )}
        {isCreating && (
          <>
            <progress aria-label={home('hashing')} max={Math.max(1, bytes)} value={hashed} />
            <button type="button" class="quiet" onClick={() => work.current?.abort()}>
              {home('stop')}
            </button>
          </>
        )}
        <button type="submit" class="light" disabled={tooLarge || isCreating} title={home('keys')}>
          <Flame availability="available" size={22} />
          {isCreating ? home('creating', { percent: percentText(percentOf(hashed, bytes)) }) : home('create')}
        </button>
      </div>
    </form>
  )
}

interface ChipsProps {
  files: readonly PageFile[]
  /** Whether it is a picture that the text does not show. */
  isLoose: (file: PageFile) => boolean
  onPutInText: (file: PageFile) => void
  onRemove: (file: PageFile) => void
}

function Chips({ files, isLoose, onPutInText, onRemove }: ChipsProps) {
  if (files.length === 0) return null
  const more = files.length - CHIPS_MAX
  return (
    <ul class="chips" aria-label={home('files')}>
      {files.slice(0, CHIPS_MAX).map((file) => (
        <li key={file.path}>
          <span dir="auto" translate={false}>{file.path}</span> <small>{sizeText(file.blob.size)}</small>
          {isLoose(file) && (
            <button type="button" onClick={() => onPutInText(file)}>
              {home('putInText')}
            </button>
          )}
          <button type="button" aria-label={home('remove', { name: file.path })} onClick={() => onRemove(file)}>
            ×
          </button>
        </li>
      ))}
      {more > 0 && <li>{home('more', { count: more })}</li>}
    </ul>
  )
}

/** Accepts files dropped anywhere on the page; returns whether files are being dragged over it. */
function useDrop(onDrop: (dropped: Dropped | null) => void): boolean {
  const [dragging, setDragging] = useState(false)
  const take = useRef(onDrop)
  take.current = onDrop
  useEffect(() => {
    const listening = new AbortController()
    const { signal } = listening
    const holdsFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') === true
    addEventListener('dragover', (event) => {
      if (!holdsFiles(event)) return
      event.preventDefault()
      setDragging(true)
    }, { signal })
    addEventListener('dragleave', (event) => {
      if (event.relatedTarget === null) setDragging(false)
    }, { signal })
    addEventListener('drop', (event) => {
      setDragging(false)
      if (!holdsFiles(event) || event.dataTransfer === null) return
      event.preventDefault()
      filesOfDrop(event.dataTransfer).then((dropped) => take.current(dropped), () => take.current(null))
    }, { signal })
    return () => listening.abort()
  }, [])
  return dragging
}

/** Makes the browser ask before the tab closes, because a draft is stored nowhere. */
function useUnloadWarning(unsaved: boolean): void {
  useEffect(() => {
    if (!unsaved) return
    const warn = (event: BeforeUnloadEvent) => event.preventDefault()
    addEventListener('beforeunload', warn)
    return () => removeEventListener('beforeunload', warn)
  }, [unsaved])
}

function insertedAt(box: HTMLTextAreaElement | null, text: string, markup: string): string {
  const at = box?.selectionEnd ?? text.length
  const before = text.slice(0, at).replace(/\n*$/, '\n\n')
  return `${before}${markup}\n${text.slice(at)}`
}

function isPicture({ blob }: PageFile): boolean {
  return blob.type.startsWith('image/')
}

function roomText(bytes: number, most: number | null, empty: boolean): string {
  if (most === null) return empty ? '' : sizeText(bytes)
  if (empty) return home('upTo', { size: sizeText(most) })
  return home(bytes > most ? 'tooLarge' : 'room', { size: sizeText(bytes), most: sizeText(most) })
}

function sentenceOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : home('notCreated')
}
