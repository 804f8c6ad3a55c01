import type { LiveEntry, LiveSource } from '@watchfire/pages/live'
import { useEffect, useRef, useState } from 'preact/hooks'
import { withLineBreaks } from '../files/line-breaks.ts'
import { live as text } from '../messages/live.ts'
import { readTransfer } from '../ui/dropped-files.ts'
import { FilePicker, filesOf } from '../ui/FilePicker.tsx'
import { isPastedText } from '../ui/pasted-text.ts'
import type { PageFile, PageSession } from '../ui/site.ts'
import { useDrop } from '../ui/use-drop.ts'
import { fileEntries, NOTE_NAME, textEntry } from './entries.ts'
import { keepTypedWords, typedWords } from './typed-words.ts'

const FORMATS = ['text', 'markdown'] as const

interface AppendFormProps {
  session: PageSession
  /** The entry with which the page began. The next ones have its format, until the person chooses another. */
  first: LiveEntry | undefined
  /** Whether this tab can add entries after a reload too. */
  survivesReload: boolean
}

/** The field with which the publisher adds texts and files to a live page. */
export function AppendForm({ session, first, survivesReload }: AppendFormProps) {
  const [words, setWords] = useState(() => typedWords(session.cid))
  const [chosen, setChosen] = useState<(typeof FORMATS)[number] | null>(null)
  const format = chosen ?? (first?.name === NOTE_NAME ? 'markdown' : 'text')
  /** Texts and lots of files that are being added. The page adds one entry after another, and bounds how many wait. */
  const [adding, setAdding] = useState(0)
  const [isAddingText, setAddingText] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  const box = useRef<HTMLTextAreaElement>(null)
  useEffect(() => keepTypedWords(session.cid, words), [session.cid, words])

  const append = async (entries: readonly LiveSource[]): Promise<boolean> => {
    const swarm = session.swarm.peek()
    if (swarm === null) return false
    setProblem(null)
    setAdding((count) => count + 1)
    try {
      for (const entry of entries) await swarm.append(entry)
      return true
    } catch (reason) {
      setProblem(reason instanceof Error && reason.message !== '' ? reason.message : text('notAdded'))
      return false
    } finally {
      setAdding((count) => count - 1)
    }
  }
  const addText = async () => {
    if (isAddingText) return
    if (words.trim() === '') return box.current?.focus()
    setAddingText(true)
    // Lines of Markdown stay lines.
    const entry = format === 'markdown' ? textEntry(withLineBreaks(words), NOTE_NAME) : textEntry(words, null)
    // The beginning of the next entry may be behind it already.
    const isAdded = await append([entry])
    setAddingText(false)
    if (isAdded) setWords((now) => (now.startsWith(words) ? now.slice(words.length) : now))
    box.current?.focus()
  }
  const addFiles = (files: readonly PageFile[]) => void append(fileEntries(files))
  const dragging = useDrop(async (transfer) => {
    const { files, notice } = await readTransfer(transfer)
    await append(fileEntries(files))
    if (notice !== null) setProblem(notice)
  })

  return (
    <form
      class={dragging ? 'append dragging' : 'append'}
      aria-label={text('add')}
      aria-busy={adding > 0}
      onSubmit={(event) => {
        event.preventDefault()
        void addText()
      }}
    >
      <textarea
        ref={box}
        rows={3}
        dir="auto"
        aria-label={text('box')}
        placeholder={text('invitation')}
        value={words}
        onInput={({ currentTarget: { value } }) => setWords(value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
          event.preventDefault()
          void addText()
        }}
        onPaste={(event) => {
          const files = filesOf(event.clipboardData?.files)
          if (files.length === 0 || isPastedText(event.clipboardData?.getData('text/plain') ?? '', files)) return
          event.preventDefault()
          addFiles(files)
        }}
      />
      {problem !== null && (
        <p class="notice bad" role="alert">
          {problem}
        </p>
      )}
      <div class="bar">
        <fieldset class="switch" disabled={isAddingText}>
          <legend class="unseen">{text('format')}</legend>
          {FORMATS.map((each) => (
            <label key={each}>
              <input type="radio" name="format" checked={format === each} onChange={() => setChosen(each)} />
              <span>{text(each)}</span>
            </label>
          ))}
        </fieldset>
        <FilePicker label={text('addFiles')} isDisabled={false} onPick={addFiles} />
        <button type="submit" class="light" disabled={isAddingText}>
          {text(adding > 0 ? 'adding' : 'submit')}
        </button>
      </div>
      <p class="small">{text(survivesReload ? 'onlyThisTab' : 'onlyUntilReload')}</p>
    </form>
  )
}
