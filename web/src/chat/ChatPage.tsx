import '../style/chat.css'
import { signal } from '@preact/signals'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { navigate } from '../ui/location.ts'
import { chatAddress } from '../ui/route.ts'
import type { RoomMessage, RoomSession, Said, Site } from '../ui/site.ts'
import { wearFace } from '../ui/tab.ts'
import { language } from '../words/index.ts'
import { chat as words } from '../words/chat.ts'
import { BODY_LENGTH_MAX, USER_LENGTH_MAX } from './room.ts'

/** Kept while the tab is open, from room to room. */
const user = signal('')

/** Pixels from the end within which a reader is taken to follow along. */
const FOLLOWING_PX = 80

/** A room: whoever has it open reads what is said from then on. Nothing is kept anywhere. */
export function ChatPage({ site, room }: { site: Site; room: string }) {
  const session = useMemo(() => site.enterRoom(room), [site, room])
  useEffect(() => () => session.leave(), [session])
  useEffect(() => wearFace(words('tab', { room }), 'lit'), [room])
  return (
    <div class="chat">
      <h1 class="unseen">{words('title', { room })}</h1>
      <RoomBar session={session} room={room} />
      <Messages messages={session.messages.value} />
      <SayForm session={session} />
    </div>
  )
}

function RoomBar({ session, room }: { session: RoomSession; room: string }) {
  const [name, setName] = useState(room)
  return (
    <form
      class="bar"
      onSubmit={(event) => {
        event.preventDefault()
        if (name.trim() !== '') navigate(chatAddress(name.trim()))
      }}
    >
      <label>
        {words('room')}{' '}
        <input
          value={name}
          maxLength={64}
          enterkeyhint="go"
          autocomplete="off"
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      {name.trim() !== room && <button type="submit">{words('enter')}</button>}
      <p class="standing" role="status">
        {standing(session.state.value)}
      </p>
    </form>
  )
}

function standing(state: RoomSession['state']['value']): string {
  if (state === 'joining') return words('joining')
  if (state === 'joined') return words('joined')
  return words('refused', { reason: state.refused ?? words('noReason') })
}

function unsaidSentence(said: Exclude<Said, 'ok'> | 'unsent'): string {
  if (typeof said === 'object') return words('unsaid', { reason: said.refused ?? words('noReason') })
  return words(said)
}

function Messages({ messages }: { messages: readonly RoomMessage[] }) {
  const list = useRef<HTMLDivElement>(null)
  const following = useRef(true)
  useEffect(() => {
    if (following.current) list.current?.scrollTo(0, list.current.scrollHeight)
  }, [messages])
  return (
    <div
      ref={list}
      class="messages"
      role="log"
      aria-label={words('said')}
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
        following.current = scrollHeight - scrollTop - clientHeight < FOLLOWING_PX
      }}
    >
      {messages.length === 0 && <p class="none">{words('nothing')}</p>}
      <ol>
        {messages.map((message, i) => (
          <li key={i}>
            <b dir="auto" translate={false}>{message.user}</b>{' '}
            <time dateTime={message.at.toISOString()}>
              {message.at.toLocaleTimeString(language.value.tag, { hour: '2-digit', minute: '2-digit' })}
            </time>
            <p dir="auto" translate={false}>{message.body}</p>
          </li>
        ))}
      </ol>
    </div>
  )
}

function SayForm({ session }: { session: RoomSession }) {
  const [body, setBody] = useState('')
  const [problem, setProblem] = useState<string | null>(null)
  const joined = session.state.value === 'joined'
  const ready = joined && body.trim() !== '' && user.value.trim() !== ''
  const say = async () => {
    if (!ready) return
    setProblem(null)
    const said = await session.say(user.value, body).catch(() => 'unsent' as const)
    if (said === 'ok') setBody('')
    else setProblem(unsaidSentence(said))
  }
  return (
    <form
      class="say"
      onSubmit={(event) => {
        event.preventDefault()
        void say()
      }}
    >
      {problem !== null && (
        <p class="notice bad" role="alert">
          {problem}
        </p>
      )}
      <input
        class="user"
        aria-label={words('name')}
        placeholder={words('name')}
        autocomplete="nickname"
        maxLength={USER_LENGTH_MAX}
        value={user.value}
        onInput={(event) => (user.value = event.currentTarget.value)}
      />
      <input
        class="body"
        aria-label={words('message')}
        placeholder={words('invitation')}
        autocomplete="off"
        enterkeyhint="send"
        maxLength={BODY_LENGTH_MAX}
        value={body}
        onInput={(event) => setBody(event.currentTarget.value)}
      />
      <button type="submit" class="strong" disabled={!ready}>
        {words('send')}
      </button>
    </form>
  )
}
