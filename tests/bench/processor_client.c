/* Load for ./dev bench processor: one thread, epoll, keep-alive connections.

   processor_client PORT SECONDS WARM_SECONDS LIFETIME_MS CLASS...
   CLASS = PATH:RATE:CONNECTIONS. RATE 0: closed loop; else requests per second, at Poisson times: open loop. A request
   of the open loop that finds no free connection within LIFETIME_MS counts as unsent. Prints one JSON line per class:
   requests and bytes per second after the warm-up, and times from due to answered in milliseconds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DUE_MAX (1 << 20)
#define TIMES_MAX (1 << 22)
#define BURST 64

enum state { IDLE, HEAD, BODY };
struct connection { int fd, class_number, status; enum state state; double due; long left; };
struct class {
  char request[256];
  int request_len, connections, idle_count;
  double rate, next_due, bytes;
  struct connection **idle;
  double *due; /* ring of requests that wait for a connection */
  long due_head, due_tail, offered, served, denied, unsent, times;
  float *time_ms;
};

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return x < y ? -1 : x > y;
}

static void die(const char *what) { perror(what); exit(1); }

static void ask(struct connection *c, struct class *k, double due) {
  c->due = due;
  c->state = HEAD;
  if (send(c->fd, k->request, k->request_len, MSG_NOSIGNAL) != k->request_len) die("send");
}

static char buffer[1 << 16];

/* Returns 1 if the response is complete. */
static int read_some(struct connection *c, double *bytes) {
  for (;;) {
    long got = c->state == HEAD ? recv(c->fd, buffer, 1024, 0) : recv(c->fd, buffer, c->left, MSG_TRUNC);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) { fprintf(stderr, "the node closed a connection\n"); exit(1); }
    if (c->state == HEAD) {
      buffer[got] = 0;
      char *length = memmem(buffer, got, "Content-Length: ", 16), *end = memmem(buffer, got, "\r\n\r\n", 4);
      if (!length || !end) { fprintf(stderr, "no complete head: %s\n", buffer); exit(1); }
      c->status = atoi(buffer + 9);
      c->left = atol(length + 16) - (got - (end + 4 - buffer));
      c->state = BODY;
      if (c->status == 200) *bytes = atol(length + 16);
      else *bytes = 0;
    } else c->left -= got;
    if (c->left <= 0) return 1;
  }
}

int main(int count, char **words) {
  if (count < 6) return 2;
  char *host = strchr(words[1], ':'); // [ADDRESS:]PORT
  int port = atoi(host ? host + 1 : words[1]), classes = count - 5, poll = epoll_create1(0);
  double seconds = atof(words[2]), warm = atof(words[3]), lifetime = atof(words[4]) / 1e3;
  struct class *all = calloc(classes, sizeof *all);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  if (host) *host = 0;
  address.sin_addr.s_addr = host ? inet_addr(words[1]) : htonl(INADDR_LOOPBACK);
  srand48(7);
  for (int i = 0; i < classes; i++) {
    struct class *k = &all[i];
    char path[128];
    if (sscanf(words[5 + i], "%127[^:]:%lf:%d", path, &k->rate, &k->connections) != 3) return 2;
    k->request_len = sprintf(k->request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", path, port);
    k->idle = calloc(k->connections, sizeof *k->idle);
    k->due = malloc(DUE_MAX * sizeof *k->due);
    k->time_ms = malloc(TIMES_MAX * sizeof *k->time_ms);
    for (int j = 0; j < k->connections; j++) {
      struct connection *c = calloc(1, sizeof *c);
      int one = 1;
      c->class_number = i;
      c->fd = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(c->fd, (void *)&address, sizeof address)) die("connect");
      setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      fcntl(c->fd, F_SETFL, O_NONBLOCK);
      struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
      epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &event);
      k->idle[k->idle_count++] = c;
    }
  }
  double start = now_s(), measured = start + warm, end = start + seconds;
  for (int i = 0; i < classes; i++) {
    struct class *k = &all[i];
    k->next_due = k->rate > 0 ? start : INFINITY;
    while (k->rate <= 0 && k->idle_count) ask(k->idle[--k->idle_count], k, start);
  }
  struct epoll_event events[256];
  for (;;) {
    double t = now_s(), soon = end;
    if (t > end) break;
    for (int i = 0; i < classes; i++) {
      struct class *k = &all[i];
      for (; k->next_due <= t; k->next_due -= log(1 - drand48()) / k->rate) {
        if (k->next_due >= measured) k->offered++;
        if (k->due_tail - k->due_head < DUE_MAX) k->due[k->due_tail++ % DUE_MAX] = k->next_due;
      }
      for (; k->due_head < k->due_tail && t - k->due[k->due_head % DUE_MAX] > lifetime; k->due_head++)
        if (k->due[k->due_head % DUE_MAX] >= measured) k->unsent++;
      int burst = 0;
      while (k->due_head < k->due_tail && k->idle_count && burst++ < BURST)
        ask(k->idle[--k->idle_count], k, k->due[k->due_head++ % DUE_MAX]);
      if (k->next_due < soon) soon = k->next_due;
      if (burst >= BURST) soon = t;
    }
    double wait = soon <= t ? 0 : soon - t > 0.01 ? 0.01 : soon - t;
    struct timespec patience = {.tv_nsec = (long)(wait * 1e9)};
    int ready = epoll_pwait2(poll, events, 256, &patience, NULL);
    for (int i = 0; i < ready; i++) {
      struct connection *c = events[i].data.ptr;
      struct class *k = &all[c->class_number];
      static double body[1 << 20];
      if (c->state == IDLE) continue;
      if (!read_some(c, &body[c->fd])) continue;
      double done = now_s();
      c->state = IDLE;
      if (done >= measured) {
        if (c->status == 200) {
          k->served++;
          k->bytes += body[c->fd];
          if (k->times < TIMES_MAX) k->time_ms[k->times++] = (done - c->due) * 1e3;
        } else k->denied++;
      }
      if (k->rate <= 0) ask(c, k, done);
      else k->idle[k->idle_count++] = c;
    }
  }
  struct timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  for (int i = 0; i < classes; i++) {
    struct class *k = &all[i];
    double passed = end - measured;
    qsort(k->time_ms, k->times, sizeof *k->time_ms, by_value);
    printf("{\"offered\":%.1f,\"served\":%.1f,\"denied\":%.1f,\"unsent\":%.1f,\"bps\":%.0f,\"p50_ms\":%.3f,"
           "\"p99_ms\":%.3f,\"client_busy\":%.3f}\n",
           k->offered / passed, k->served / passed, k->denied / passed, k->unsent / passed, k->bytes / passed,
           k->times ? k->time_ms[k->times / 2] : 0.0, k->times ? k->time_ms[k->times * 99 / 100] : 0.0,
           (used.tv_sec + used.tv_nsec * 1e-9) / seconds);
  }
  return 0;
}
