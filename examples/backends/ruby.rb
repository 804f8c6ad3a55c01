require 'json'
require 'net/http'
require 'openssl'
require 'socket'
require 'uri'

BOARD = 'cursors:board'

def encode(bytes) = [bytes].pack('m0').tr('+/', '-_').delete('=')

def sign(claims)
  message = "#{encode({ alg: 'HS256', typ: 'JWT' }.to_json)}.#{encode(claims.to_json)}"
  "#{message}.#{encode(OpenSSL::HMAC.digest('SHA256', ENV.fetch('TOKEN_SECRET'), message))}"
end

def token_of(name)
  sign(sub: name, exp: Time.now.to_i + 3600, channels: { join: [BOARD], publish: [BOARD] }, meta: { name: name })
end

def publish(topic, event, payload)
  headers = { 'Authorization' => "Bearer #{ENV.fetch('API_KEY')}", 'Content-Type' => 'application/json' }
  body = { topic: topic, event: event, payload: payload }.to_json
  Net::HTTP.post(URI("#{ENV.fetch('WATCHFIRE_URL')}/api/publish"), body, headers)
end

def answer(verb, target)
  path, query = target.split('?', 2)
  case [verb, path]
  when ['GET', '/token'] then [200, { token: token_of(URI.decode_www_form(query.to_s).to_h.fetch('name', 'guest')) }]
  when ['POST', '/clear'] then [publish(BOARD, 'clear', {}).is_a?(Net::HTTPOK) ? 200 : 502, {}]
  else [404, {}]
  end
end

# A web framework such as Rails or Sinatra takes the place of this loop.
server = TCPServer.new('127.0.0.1', Integer(ENV.fetch('PORT', '8000')))
loop do
  client = server.accept
  verb, target = client.gets.to_s.split
  until ['', nil].include?(client.gets&.strip); end
  status, body = answer(verb, target.to_s)
  text = body.to_json
  client.write("HTTP/1.1 #{status} -\r\nContent-Type: application/json\r\nContent-Length: #{text.bytesize}\r\nConnection: close\r\n\r\n#{text}")
  client.close
end
