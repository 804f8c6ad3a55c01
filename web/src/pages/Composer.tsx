import { useEffect, useRef, useState } from 'preact/hooks'
import { Flame } from '../ui/Flame.tsx'
import type { PageFile, PageSession, Site } from '../ui/site.ts'
import { percentOf, percentText, sizeText } from '../messages/index.ts'
import { home } from '../messages/home.ts'
import { shell } from '../messages/shell.ts'
import { afterPaint } from '../ui/after-paint.ts'
import type { Draft, Writing } from './draft.ts'
import { draftBytes, EMPTY_DRAFT, isEmpty, isPastedText, pictureMarkup, withFiles, without } from './draft.ts'
import { Toggle } from './Toggle.tsx'

// Loaded after the first paint, ahead of the first drop and of the page.
const loadDrafting = () => import('./drafting.ts')

const WRITINGS: readonly Writing[] = ['markdown', 'text', 'html']
const CHIPS_MAX = 50

interface ComposerProps {
  site: Site
  onCreate: (session: PageSession, filename: string | null) => void
}

/** The editor of the home page, with the files that go with the text. */
export function Composer({ site, onCreate }: ComposerProps) {
  const [draft, setDraft] = useState<Draft>(EMPTY_DRAFT)
  const [problem, setProblem] = useState<string | null>(null)
  const [isPrivate, setPrivate] = useState(false)
  const [hashed, setHashed] = useState<number | null>(null)
  /** Drops that are being read. The page would be without their files. */
  const [reading, setReading] = useState(0)
  const box = useRef<HTMLTextAreaElement>(null)
  const work = useRef<AbortController | null>(null)
  const bytes = draftBytes(draft)
  const most = site.limits.value?.get('page_bytes_max')?.value ?? null
  const tooLarge = most !== null && bytes > most
  const empty = isEmpty(draft)
  const isCreating = hashed !== null
  const isReading = reading > 0

  const add = (added: readonly PageFile[], emptyFolders: readonly string[] = []) => {
    setProblem(null)
    setDraft((before) => {
      const after = withFiles(before, added, emptyFolders)
      const pictures = after.files.slice(before.files.length).filter(isPicture)
      if (before.writing !== 'markdown' || pictures.length === 0 || before.text.trim() === '') return after
      const markup = pictures.map(({ path }) => pictureMarkup(path)).join('\n')
      return { ...after, text: insertedAt(box.current, before.text, markup) }
    })
  }
  const dragging = useDrop(async ({ items, files }) => {
    // The page that is being created would be without them.
    if (isCreating) return
    // Must be read before the first await, because the browser then empties the transfer.
    const entries = [...items].flatMap((item) => (item.kind === 'file' ? (item.webkitGetAsEntry() ?? []) : []))
    if (entries.length === 0) return add(filesOf(files))
    setReading((count) => count + 1)
    const { readDrop } = await loadDrafting().catch(() => ({ readDrop: null }))
    const found = await readDrop?.(entries)
    setReading((count) => count - 1)
    if (found !== undefined) add(found.files, found.emptyFolders)
    setProblem(found === undefined ? shell('partMissing') : found.notice)
  })
  const putInText = ({ path }: PageFile) => setDraft({ ...draft, text: insertedAt(box.current, draft.text, pictureMarkup(path)) })
  const isLoose = (file: PageFile) =>
    draft.writing === 'markdown' && draft.text.trim() !== '' && isPicture(file) && !draft.text.includes(pictureMarkup(file.path))
  useUnloadWarning(!empty)
  useEffect(() => {
    void afterPaint()
      .then(loadDrafting)
      .catch(() => undefined)
    return () => work.current?.abort()
  }, [])

  const create = async () => {
    if (tooLarge || isCreating || isReading) return
    if (empty) {
      setProblem(home('nothing'))
      box.current?.focus()
      return
    }
    const controller = new AbortController()
    work.current = controller
    setProblem(null)
    setHashed(0)
    try {
      const { bundle } = await loadDrafting()
      const { files, filename, emptyFolders, isDirectory } = bundle(draft)
      const options = { signal: controller.signal, onProgress: setHashed, emptyFolders, isDirectory }
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
    const { clipboardData } = event
    const pasted = clipboardData ? filesOf(clipboardData.files) : []
    if (isCreating || pasted.length === 0 || isPastedText(clipboardData?.getData('text/plain') ?? '', pasted)) return
    event.preventDefault()
    add(pasted)
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
              <input type="radio" name="writing" checked={draft.writing === writing} onChange={() => setDraft({ ...draft, writing })} />
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
      <Chips files={draft.files} isLoose={isLoose} onPutInText={putInText} onRemove={(gone) => setDraft(without(draft, gone))} />
      {problem !== null && (
        <p class="notice bad" role="alert">
          {problem}
        </p>
      )}
      {isPrivate && <p class="means small">{home('sealedMeans')}</p>}
      <div class="bar">
        <p class={tooLarge ? 'room bad' : 'room'} role="status">
          {isReading ? home('reading') : roomText(bytes, most, empty)}
        </p>
        {!isCreating && <Toggle label={home('sealed')} isOn={isPrivate} onChange={setPrivate} />}
        {isCreating && (
          <>
            <progress aria-label={home('hashing')} max={Math.max(1, bytes)} value={hashed} />
            <button type="button" class="quiet" onClick={() => work.current?.abort()}>
              {home('stop')}
            </button>
          </>
        )}
        <button type="submit" class="light" disabled={tooLarge || isCreating || isReading} title={home('keys')}>
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
          <span dir="auto" translate={false}>
            {file.path}
          </span>{' '}
          <small>{sizeText(file.blob.size)}</small>
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

/** The files of a list, such as a picker's, under their own names. */
function filesOf(list: FileList): PageFile[] {
  return [...list].map((file) => ({ path: file.webkitRelativePath || file.name, blob: file }))
}

/** Accepts files dropped anywhere on the page; returns whether files are being dragged over it. */
function useDrop(onDrop: (transfer: DataTransfer) => void): boolean {
  const [dragging, setDragging] = useState(false)
  const take = useRef(onDrop)
  take.current = onDrop
  useEffect(() => {
    const listening = new AbortController()
    const { signal } = listening
    const holdsFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') === true
    addEventListener(
      'dragover',
      (event) => {
        if (!holdsFiles(event) || event.dataTransfer === null) return
        event.preventDefault()
        event.dataTransfer.dropEffect = 'copy'
        setDragging(true)
      },
      { signal },
    )
    addEventListener(
      'dragleave',
      (event) => {
        if (event.relatedTarget === null) setDragging(false)
      },
      { signal },
    )
    addEventListener(
      'drop',
      (event) => {
        setDragging(false)
        if (!holdsFiles(event) || event.dataTransfer === null) return
        event.preventDefault()
        take.current(event.dataTransfer)
      },
      { signal },
    )
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
