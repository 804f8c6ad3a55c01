import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { FilePicker, filesOf } from '../ui/FilePicker.tsx'
import { FolderPicker } from '../ui/FolderPicker.tsx'
import { Flame } from '../ui/Flame.tsx'
import type { Dropped } from '../ui/dropped-files.ts'
import type { OpenPages } from '../ui/open-pages.ts'
import type { PageFile, PageSession, Site } from '../ui/site.ts'
import { percentOf, percentText, sizeText } from '../messages/index.ts'
import { shownName } from '../names/index.ts'
import { home } from '../messages/home.ts'
import { shell } from '../messages/shell.ts'
import { RECEIVED_HASH } from '../service-worker/received-hash.ts'
import { afterPaint } from '../ui/after-paint.ts'
import { lazy, lazyAfterPaint } from '../ui/lazy.tsx'
import { showTabStatus } from '../ui/tab-status.ts'
import { useDrop } from '../ui/use-drop.ts'
import type { Writing } from './draft.ts'
import { draftBytes, isBlank, isEmpty } from './draft.ts'
import { useDraft } from './use-draft.ts'

type Drafting = typeof import('./drafting.ts')

// Loaded after the first paint, ahead of the first drop and of the page.
const loadDrafting = () => import('./drafting.ts')
const Choices = lazyAfterPaint(() => import('./Choices.tsx').then(({ Choices }) => Choices))
const Preview = lazy(() => import('./Preview.tsx').then(({ Preview }) => Preview))

const WRITINGS: readonly Writing[] = ['markdown', 'text', 'html']
/** Whether this is a phone or tablet: nothing can be dropped there, and there is no Ctrl key. */
const isTouched = matchMedia('(pointer: coarse)').matches

interface ComposerProps {
  site: Site
  openPages: OpenPages
  onCreate: (session: PageSession, filename: string | null) => void
}

/** The editor of the home page, with the files that go with the text. */
export function Composer({ site, openPages, onCreate }: ComposerProps) {
  const { draft, change, isRestoring, isKept, forget } = useDraft()
  const [problem, setProblem] = useState<string | null>(null)
  const [hashed, setHashed] = useState<number | null>(null)
  /** Picked, pasted or dropped files that are not in the draft yet. The page would be without them. */
  const [reading, setReading] = useState(0)
  const box = useRef<HTMLTextAreaElement>(null)
  const work = useRef<AbortController | null>(null)
  const [drafting, setDrafting] = useState<Drafting | null>(null)
  const { writing, original } = draft
  const copyOf = original && (original.name ? home('copyOf', { name: shownName(original.name) }) : home('copy'))
  // Not each time that the progress is drawn: the browser is asked for the size of every file.
  const bytes = useMemo(() => draftBytes(draft), [draft.text, draft.files])
  const most = site.limits.value?.get('page_bytes_max')?.value ?? null
  const tooLarge = most !== null && bytes > most
  const empty = isEmpty(draft)
  /** Whether the page may well be without a text: the field for it need not fill the window. */
  const isBeside = draft.files.length > 0 && isBlank(draft.text)
  const isCreating = hashed !== null
  const isReading = reading > 0 || isRestoring
  const cursor = (text: string) => box.current?.selectionEnd ?? text.length

  const whileReading = async <T,>(work: Promise<T>): Promise<T> => {
    setReading((count) => count + 1)
    try {
      return await work
    } finally {
      setReading((count) => count - 1)
    }
  }
  const add = async (added: readonly PageFile[], emptyFolders: readonly string[] = []) => {
    setProblem(null)
    try {
      const loaded = await whileReading(loadDrafting())
      setDrafting(loaded)
      change((before) => loaded.withShownFiles(before, added, emptyFolders, cursor(before.text)))
    } catch {
      setProblem(shell('partMissing'))
    }
  }
  const addFound = async (finding: Promise<Dropped>) => {
    const adding = finding.then(async ({ files, emptyFolders, notice }) => {
      await add(files, emptyFolders)
      return notice
    })
    setProblem(await whileReading(adding).catch(() => shell('partMissing')))
  }
  const dragging = useDrop(async ({ items, files }) => {
    // The page that is being created would be without them.
    if (isCreating) return
    // Must be read before the first await, because the browser then empties the transfer.
    const entries = [...items].flatMap((item) => (item.kind === 'file' ? (item.webkitGetAsEntry() ?? []) : []))
    if (entries.length === 0) return add(filesOf(files))
    return addFound(loadDrafting().then(({ readDrop }) => readDrop(entries)))
  })
  const putInText = ({ path }: PageFile) =>
    void loadDrafting().then(({ pictureMarkup, withMarkup }) =>
      change((before) => ({ ...before, text: withMarkup(before.text, pictureMarkup(path), cursor(before.text)) })),
    )
  useUnloadWarning(!empty && !isKept)
  useEffect(() => showTabStatus(copyOf ?? 'Watchfire', 'available'), [copyOf])
  useEffect(() => {
    const loading = afterPaint()
      .then(loadDrafting)
      .then((loaded) => {
        setDrafting(loaded)
        return loaded.receive(change)
      })
    const received = location.hash === RECEIVED_HASH ? whileReading(loading) : loading
    void received.catch(() => shell('partMissing')).then((notice) => notice && setProblem(notice))
    return () => work.current?.abort()
  }, [])

  const create = async () => {
    if (tooLarge || isCreating || isReading) return
    if (empty && draft.liveTitle === null) {
      setProblem(home('nothing'))
      box.current?.focus()
      return
    }
    const controller = new AbortController()
    work.current = controller
    setProblem(null)
    setHashed(0)
    try {
      const { shareDraft } = await loadDrafting()
      const { session, filename } = await shareDraft(site, draft, { signal: controller.signal, onProgress: setHashed }, openPages.isFull)
      forget()
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
    if (isCreating || drafting === null || clipboardData === null) return
    const pasted = filesOf(clipboardData.files)
    const plain = clipboardData.getData('text/plain')
    if (pasted.length > 0 && !drafting.isPastedText(plain, pasted)) {
      event.preventDefault()
      return void add(pasted)
    }
    const markdown = writing === 'markdown' ? drafting.markdownOf(clipboardData.getData('text/html')) : null
    // The browser's own way of typing it can be undone.
    if (markdown !== null && document.execCommand('insertText', false, markdown)) event.preventDefault()
  }

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
          {WRITINGS.map((each) => (
            <label key={each}>
              <input
                type="radio"
                name="writing"
                checked={writing === each}
                onChange={() => change((before) => ({ ...before, writing: each }))}
              />
              <span>{home(each)}</span>
            </label>
          ))}
        </fieldset>
        <FilePicker label={home('addFiles')} isDisabled={isCreating} onPick={add} />
        <FolderPicker
          label={home('addFolder')}
          isDisabled={isCreating}
          onPick={(files) => addFound(loadDrafting().then(({ readPicked }) => readPicked(files)))}
        />
      </div>
      {copyOf && (
        <p class="small" dir="auto">
          {copyOf}
        </p>
      )}
      <div class="desk">
        <textarea
          ref={box}
          aria-label={home('box')}
          aria-describedby="means"
          dir="auto"
          class={`${writing === 'html' ? 'code' : ''} ${isBeside ? 'beside' : ''}`}
          placeholder={
            isBeside ? home('beside') : writing === 'html' ? '<!doctype html>' : home(isTouched ? 'invitationTouch' : 'invitation')
          }
          value={draft.text}
          readOnly={isCreating}
          spellcheck={writing !== 'html'}
          onInput={({ currentTarget: { value } }) => {
            setProblem(null)
            change((before) => ({ ...before, text: value }))
          }}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
        />
        {writing !== 'text' && !isBlank(draft.text) && <Preview draft={draft} />}
      </div>
      {drafting !== null && draft.files.length > 0 && (
        <drafting.Chips draft={draft} onPutInText={putInText} onChange={(changed) => change(() => changed)} />
      )}
      {problem !== null && (
        <p class="notice bad" role="alert">
          {problem}
        </p>
      )}
      <Choices draft={draft} change={change} />
      <div class="bar">
        <p class={tooLarge ? 'room bad' : 'room'} role="status">
          {isReading ? home('reading') : roomText(bytes, most, empty)}
        </p>
        {isCreating && (
          <>
            <progress aria-label={home('hashing')} max={Math.max(1, bytes)} value={hashed} />
            <button type="button" class="quiet" onClick={() => work.current?.abort()}>
              {home('stop')}
            </button>
          </>
        )}
        <button type="submit" class="light" disabled={tooLarge || isCreating || isReading} title={isTouched ? undefined : home('keys')}>
          <Flame availability="available" size={22} />
          {isCreating ? home('creating', { percent: percentText(percentOf(hashed, bytes)) }) : home('create')}
        </button>
      </div>
    </form>
  )
}

/** Makes the browser ask before the tab closes, because the draft would be lost. */
function useUnloadWarning(unsaved: boolean): void {
  useEffect(() => {
    if (!unsaved) return
    const warn = (event: BeforeUnloadEvent) => event.preventDefault()
    addEventListener('beforeunload', warn)
    return () => removeEventListener('beforeunload', warn)
  }, [unsaved])
}

function roomText(bytes: number, most: number | null, empty: boolean): string {
  if (most === null) return empty ? '' : sizeText(bytes)
  if (empty) return home('upTo', { size: sizeText(most) })
  // A limit that is far away says nothing.
  if (bytes < most / 100) return sizeText(bytes)
  return home(bytes > most ? 'tooLarge' : 'room', { size: sizeText(bytes), most: sizeText(most) })
}

function sentenceOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : home('notCreated')
}
