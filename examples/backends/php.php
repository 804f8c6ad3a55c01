<?php
const BOARD = 'cursors:board';

function encode(string $bytes): string
{
    return rtrim(strtr(base64_encode($bytes), '+/', '-_'), '=');
}

function sign(array $claims): string
{
    $message = encode(json_encode(['alg' => 'HS256', 'typ' => 'JWT'])) . '.' . encode(json_encode($claims));
    return $message . '.' . encode(hash_hmac('sha256', $message, getenv('TOKEN_SECRET'), true));
}

function token_of(string $name): string
{
    return sign([
        'sub' => $name,
        'exp' => time() + 3600,
        'channels' => ['join' => [BOARD], 'publish' => [BOARD]],
        'meta' => ['name' => $name],
    ]);
}

function publish(string $topic, string $event, object $payload): bool
{
    $context = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => ['Authorization: Bearer ' . getenv('API_KEY'), 'Content-Type: application/json'],
        'content' => json_encode(['topic' => $topic, 'event' => $event, 'payload' => $payload]),
    ]]);
    return file_get_contents(getenv('WATCHFIRE_URL') . '/api/publish', false, $context) !== false;
}

header('Content-Type: application/json');
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if ($path === '/token') {
    echo json_encode(['token' => token_of($_GET['name'] ?? 'guest')]);
} elseif ($path === '/clear' && $_SERVER['REQUEST_METHOD'] === 'POST') {
    http_response_code(publish(BOARD, 'clear', new stdClass()) ? 200 : 502);
    echo '{}';
} else {
    http_response_code(404);
    echo '{}';
}
